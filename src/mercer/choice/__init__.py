"""Choice of a map and its number of components, for an error, a time or a memory."""

from mercer.choice.feature_map import FeatureMap, choose
from mercer.choice.rates import forget_rates, rates_file
from mercer.choice.table import MapChoice
from mercer.choice.trials import Trial

__all__ = ["FeatureMap", "MapChoice", "Trial", "choose", "forget_rates", "rates_file"]
