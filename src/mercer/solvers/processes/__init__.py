"""Gaussian processes on features: log marginal likelihood, its gradients, tuning of lengthscales, and posterior."""
