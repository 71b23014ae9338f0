"""Features of arc-cosine kernels: random neurons."""

from mercer.maps.neurons.random_neurons import RandomNeurons

__all__ = ["RandomNeurons"]
