"""Kernel k-means: starts, Lloyd's iteration on features or on the Gram matrix, mini-batches."""
