"""The page of a fitted model."""
