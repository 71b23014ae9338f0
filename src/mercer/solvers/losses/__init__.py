"""Newton's method for penalized losses of labels."""
