"""Predictions from near rows: small kernel systems, their leave-one-out errors, and lengthscales tuned by these."""
