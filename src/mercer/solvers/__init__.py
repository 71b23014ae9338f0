"""Solvers: functions from statistics to coefficients."""
