"""Feature maps of arc-cosine kernels: activations of neurons with random weights."""

from mercer.maps.neurons.random_neurons import RandomNeurons

__all__ = ["RandomNeurons"]
