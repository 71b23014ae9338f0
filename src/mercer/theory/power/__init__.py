"""Level and power of permutation tests with kernel statistics."""

from mercer.theory.power.two_samples import linear_mmd_power, mmd_power, permutation_level

__all__ = ["linear_mmd_power", "mmd_power", "permutation_level"]
