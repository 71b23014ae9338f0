"""Gaussian processes on near rows: evidence as a sum of conditionals, local scales, and predictions."""
