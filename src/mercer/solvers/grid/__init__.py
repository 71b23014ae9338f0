"""Gaussian processes on equispaced grids of frequencies: systems, evidence and posterior."""
