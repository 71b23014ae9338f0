"""What is measured of a fitted model on rows that it has not seen."""
