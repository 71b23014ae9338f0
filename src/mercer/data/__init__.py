"""What `X` and `y` may be, and how they are validated and read."""
