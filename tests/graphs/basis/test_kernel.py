"""The kernel of a graph."""

import numpy as np
import pytest

from mercer import GraphBasis, NeighborGraph, ParameterError
from mercer.graphs.basis import GraphKernel


def test_values_are_inner_products_of_features():
    X = np.random.default_rng(0).normal(size=(60, 3))
    basis = GraphBasis(NeighborGraph(5), 8).fit(X)
    new = X[:5] + 0.1
    assert basis.kernel_(new, X) == pytest.approx(basis.transform(new) @ basis.transform(X).T)
    assert basis.kernel_.diag(new) == pytest.approx(np.diagonal(basis.kernel_(new)))
    assert basis.kernel_ == basis.kernel_
    assert basis.kernel_ != GraphKernel()
    assert "60 nodes, 8 components" in repr(basis.kernel_)


def test_a_kernel_without_a_graph_has_no_values():
    with pytest.raises(ParameterError, match="no values before its graph is built"):
        GraphKernel()(np.zeros((2, 2)))
