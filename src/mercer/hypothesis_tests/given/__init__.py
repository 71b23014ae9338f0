"""The test of conditional independence: regressions on the conditioning variables, residuals, p-values."""
