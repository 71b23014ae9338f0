"""Classification with few labels among many rows of a graph: selection of weights, threshold steps, rows to label."""
