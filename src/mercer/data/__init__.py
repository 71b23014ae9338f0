"""Sources of rows, validation of rows and targets, and coding of targets."""
