"""Solvers: functions that compute the coefficients of a model from sums over the rows."""
