"""Output of results as text and HTML.

The modules only format results. Optional packages are imported inside the functions that need them.
"""
