"""Gaussian processes: evidence, its gradients, tuning, and the posterior."""
