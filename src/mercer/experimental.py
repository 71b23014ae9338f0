"""Names whose parameters and results may change in any release, without a deprecation.

To import a name from here says that you know. Until version 1.0 the same names are also exported by `mercer`; from then
on those that are not stable will only be here.

- `GridGaussianProcessRegressor` and `GridFourier`: `column_groups`, and rows of three columns, which are slow and less
  exact than one and two columns.
- `conditional_independence_test` and `ConditionalIndependence`: the regressions on z, whose accuracy decides the level
  where x and y depend strongly on z.
- `DriftMonitor`: how the probability of false alarms is spent over batches.
"""

from mercer.hypothesis_tests import ConditionalIndependence, DriftMonitor, conditional_independence_test
from mercer.learners import GridGaussianProcessRegressor
from mercer.maps import GridFourier

__all__ = [
    "ConditionalIndependence",
    "DriftMonitor",
    "GridFourier",
    "GridGaussianProcessRegressor",
    "conditional_independence_test",
]
