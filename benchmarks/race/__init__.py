"""Parts of the race: data sets, methods and their tuning, one cell, the judgment of all cells, and the page."""
