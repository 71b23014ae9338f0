"""Results as text and HTML. Nothing is computed here, and packages are imported when they are needed."""
