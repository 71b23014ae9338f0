"""Minimization of penalized classification losses by Newton's method."""
