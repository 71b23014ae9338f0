"""Comparison of maps on the same kernel and the same rows."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split

from mercer import (
    CallableKernel,
    Chi2,
    DataError,
    Deformed,
    Gaussian,
    HomogeneousFeatures,
    Laplacian,
    MercerWarning,
    NeighborGraph,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    audit,
    compare,
)
from mercer.statistics.sample import seed_of

X = np.random.default_rng(0).normal(size=(200, 4))


def test_default_is_all_maps_that_accept_the_kernel_and_those_of_scikit_learn():
    result = compare(Polynomial(), X, n_components=32, n_draws=1, repeats=1)
    names = {m.name for m in result.maps if m.library == "mercer"}
    assert names == {"RandomMaclaurin", "PolynomialSketch", "TensorSketch", "Nystroem"}
    names = {m.name for m in result.maps if m.library == "scikit-learn"}
    assert names == {"sklearn PolynomialCountSketch", "sklearn Nystroem"}
    assert {m.n_components for m in result.maps} == {32}
    errors = [m.rmse for m in result.maps]
    assert errors == sorted(errors)


def test_several_widths_and_draws():
    result = compare(Laplacian("median"), X, widths=(8, 32), n_draws=4, repeats=1)
    names = ["Nystroem", "RandomFourier", "ResampledFourier", "sklearn Nystroem"]
    assert [sorted(m.name for m in result.maps[:4]), sorted(m.name for m in result.maps[4:])] == [names, names]
    assert [m.n_components for m in result.maps] == [8] * 4 + [32] * 4
    for m in result.maps:
        errors = [one.rmse for one in m.audits]
        assert len(set(errors)) == len(m.fit_times) == len(m.transform_times) == 4
        assert m.rmse_range == (min(errors), max(errors))
        assert m.rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    again = compare(Laplacian("median"), X, widths=(8, 32), n_draws=4, repeats=1)
    assert [m.rmse for m in again.maps] == [m.rmse for m in result.maps]
    frame = result.to_pandas()
    assert frame["rmse"].tolist() == [m.rmse for m in result.maps]
    assert (frame["rmse_low"] <= frame["rmse"]).all()
    assert (frame["rmse_high"] >= frame["rmse"]).all()
    text = str(result)
    assert len(text.splitlines()) == 10
    assert "least   largest" in text
    assert ", 4 draws" in text
    assert json.loads(json.dumps(result.to_dict()))["maps"][0]["n_components"] == 8


def test_errors_of_scikit_learn_are_those_of_its_own_matrices():
    result = compare(Gaussian(2.0), X, n_components=16, n_draws=1, repeats=1)
    (peer,) = [m for m in result.maps if m.name == "sklearn RBFSampler"]
    fitted, others = train_test_split(X, test_size=0.25, random_state=seed_of(0, "compare") % 2**32)
    sampler = RBFSampler(gamma=1 / 8, n_components=16, random_state=seed_of(0, "compare") % 2**32).fit(fitted)
    Z = sampler.transform(others)
    error = (Z @ Z.T - rbf_kernel(others, gamma=1 / 8))[~np.eye(50, dtype=bool)]
    assert peer.rmse == pytest.approx(np.sqrt(np.square(error).mean()))


def test_memory_is_that_of_the_fitted_parameters():
    result = compare(Laplacian(2.0), X, widths=(16, 64), n_draws=1, repeats=1)
    sizes = {(m.name, m.n_components): m.n_bytes for m in result.maps}
    # Frequencies of half as many pairs of components, and phases; landmarks and the triangle that whitens them.
    assert 8 * (32 * 4 + 32) <= sizes["RandomFourier", 64] < 8 * (32 * 4 + 32) + 2000
    triangle = 64 * 65 // 2
    assert 8 * (64 * 4 + triangle) <= sizes["Nystroem", 64] < 8 * (64 * 4 + triangle) + 2000
    assert 8 * (64 * 4 + 64 * 64) <= sizes["sklearn Nystroem", 64] < 8 * (64 * 5 + 64 * 64) + 2000


def test_widths_of_given_maps():
    maps = {"a": RandomFourier(n_components=24, random_state=0), "b": Nystroem(n_components=12, random_state=0)}
    own = compare(Gaussian(2.0), X, maps=maps, n_draws=1, repeats=1)
    assert {m.name: m.n_components for m in own.maps} == {"a": 24, "b": 12}
    both = compare(Gaussian(2.0), X, maps=maps, widths=(8, 16), n_draws=2, repeats=1)
    assert [m.n_components for m in both.maps] == [8, 8, 16, 16]
    single = compare(Gaussian(2.0), X, maps=maps, n_components=24, n_draws=1, repeats=1)
    assert {m.n_components for m in single.maps} == {24}
    # The first draw has the seed of the given map.
    fitted, others = train_test_split(X, test_size=0.25, random_state=seed_of(0, "compare") % 2**32)
    direct = audit(RandomFourier(Gaussian(2.0), 24, random_state=0).fit(fitted), others)
    assert next(m for m in own.maps if m.name == "a").rmse == direct.rmse


def test_maps_that_wrap_another_map_have_its_seed():
    maps = {"deformed": Deformed(RandomFourier(n_components=16, random_state=0), NeighborGraph(5))}
    result = compare(Gaussian(2.0), X, maps=maps, n_draws=2, repeats=1)
    assert len({one.rmse for one in result.maps[0].audits}) == 2


def test_maps_that_cannot_have_a_width_are_listed():
    result = compare(Chi2(), abs(X), widths=(2, 12), n_draws=1, repeats=1)
    skipped = {(one.name, one.n_components): one.reason for one in result.skipped}
    reason = skipped["sklearn AdditiveChi2Sampler", 2]
    assert reason == "AdditiveChi2Sampler has at least one component per feature, which are 4"
    assert f"not measured: sklearn AdditiveChi2Sampler with 2 components: {reason}" in str(result)
    assert ("sklearn AdditiveChi2Sampler", 12) in {(m.name, m.n_components) for m in result.maps}


def test_rows_that_no_map_can_use_raise():
    with pytest.raises(DataError, match=">= 0"):
        compare(Chi2(), X, n_components=8)
    with pytest.raises(DataError, match=">= 0"):
        compare(Chi2(), X, maps={"grid": HomogeneousFeatures(n_components=8)})
    with pytest.raises(ValueError, match="NaN"):
        compare(Gaussian(1.0), np.full((20, 2), np.nan), n_components=8)


def test_each_warning_is_issued_once():
    with pytest.warns(MercerWarning) as caught:
        compare(Polynomial(2), X, n_components=64, maps={"exact": RandomMaclaurin()}, n_draws=3, repeats=1)
    assert [str(one.message)[:15] for one in caught] == ["RandomMaclaurin"]


def test_maps_are_ordered_by_error_and_share_the_kernel():
    maps = {
        "iid": RandomFourier(n_components=256, directions="iid", random_state=0),
        "one component": RandomFourier(Gaussian(77.0), n_components=1, random_state=0),
    }
    result = compare(Gaussian("median"), X, maps=maps)
    assert [m.name for m in result.maps] == ["iid", "one component"]
    assert len({m.audit.kernel for m in result.maps}) == 1
    assert maps["one component"].kernel == Gaussian(77.0)  # the map of the caller is not modified
    assert all(m.fit_seconds > 0 and m.transform_seconds > 0 for m in result.maps)
    values = json.loads(json.dumps(result.to_dict()))
    assert (values["n_rows"], values["n_held_out"]) == (200, 50)


def test_errors_are_measured_on_rows_that_are_held_out_from_the_fits():
    # All rows are landmarks: the error is zero on the rows of the fit, and not on others.
    rows = np.random.default_rng(1).normal(size=(60, 6))
    maps = {"landmarks": Nystroem(n_components=45, landmarks="uniform", random_state=0)}
    for given in (rows, rows.tolist(), pd.DataFrame(rows), sp.csr_array(rows)):
        result = compare(Gaussian(1.0), given, maps=maps)  # an audit on rows of the fit would warn, which is an error
        (landmarks,) = result.maps
        assert landmarks.audit.n_rows == result.n_held_out == 15
        assert landmarks.audit.rmse > 1e-3
        assert "60 rows, errors on 15 of them that are held out from the fits" in str(result)


def test_seed_chooses_the_rows_that_are_held_out():
    maps = {"landmarks": Nystroem(n_components=40, random_state=0)}
    errors = [compare(Gaussian(1.0), X, maps=maps, random_state=seed).maps[0].audit.rmse for seed in (0, 0, 1)]
    assert errors[0] == errors[1] != errors[2]


def test_few_rows():
    maps = {"fourier": RandomFourier(n_components=4, random_state=0)}
    assert compare(Gaussian(1.0), X[:5], maps=maps).n_held_out == 2
    with pytest.raises(DataError, match=r"compare: X must have at least 5 rows, .* got 4"):
        compare(Gaussian(1.0), X[:4], maps=maps)


def test_progress_is_called_before_each_draw_of_a_map():
    reports = []
    compare(Laplacian(), X, widths=(8, 16), n_draws=2, repeats=1, progress=reports.append)
    names = ("RandomFourier", "ResampledFourier", "Nystroem", "sklearn Nystroem")
    stages = [f"{name}, {width} components" for width in (8, 16) for name in names]
    assert [one.stage for one in reports] == [stage for stage in stages for _ in range(2)]
    fractions = [one.fraction for one in reports]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    assert 0.5 < fractions[-1] < 1


def test_progress_can_be_displayed(capsys):
    compare(Laplacian(), X, n_components=8, n_draws=1, repeats=1, progress=True)
    assert "compare: done in" in capsys.readouterr().err


def test_invalid_arguments_raise():
    with pytest.raises(ParameterError, match=r"^compare: pass either widths or n_components"):
        compare(Laplacian(), X, widths=(8,), n_components=8)
    with pytest.raises(ParameterError, match=r"^compare: widths must be an integer >= 1, got 0"):
        compare(Laplacian(), X, widths=(8, 0))
    with pytest.raises(ParameterError, match=r"^compare: widths must contain at least one"):
        compare(Laplacian(), X, widths=())
    with pytest.raises(ParameterError, match=r"^compare: widths must be a list or tuple of .* got 8"):
        compare(Laplacian(), X, widths=8)
    for wrong in ([RandomFourier()], RandomFourier()):
        with pytest.raises(ParameterError, match=r"^compare: maps must be a dictionary of unfitted maps by name"):
            compare(Laplacian(), X, maps=wrong)
    for wrong in (3, RandomFourier):
        with pytest.raises(ParameterError, match=r"^compare: maps\['a'\] must be a mercer map such as"):
            compare(Laplacian(), X, maps={"a": wrong})
    with pytest.raises(ParameterError, match=r"^compare: at least one map is needed"):
        compare(Laplacian(), X, maps={})
    for name in ("n_draws", "repeats"):
        with pytest.raises(ParameterError, match=rf"^compare: {name} must be an integer >= 1, got 0"):
            compare(Laplacian(), X, **{name: 0})


def test_kernels_that_cannot_be_pickled():
    result = compare(CallableKernel(lambda A, B: A @ B.T), X, n_components=2, n_draws=1, repeats=1)
    assert result.maps[0].n_bytes >= 8 * 2 * X.shape[1]
