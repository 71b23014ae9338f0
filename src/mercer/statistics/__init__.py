"""What is added over rows: values with ``+``, each the sufficient statistic of some solver."""

from mercer.statistics.distinct import DistinctRows, row_hashes
from mercer.statistics.gram import GramSum, add_products
from mercer.statistics.sample import RowSample, exponentials

__all__ = ["DistinctRows", "GramSum", "RowSample", "add_products", "exponentials", "row_hashes"]
