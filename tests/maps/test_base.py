"""What holds for every map: the contract, purity, dtypes, seeds, wrong rows and wrong parameters."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import (
    Chi2,
    CompositionMap,
    DataError,
    Deformed,
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Intersection,
    KernelRidge,
    Laplacian,
    Matern,
    MercerWarning,
    NoClosedFormError,
    Nystroem,
    ParameterError,
    Polynomial,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    ScaledColumns,
    SumMap,
    TensorSketch,
    ThresholdFeatures,
    Transformed,
    UnsupportedKernelError,
)
from mercer.engines import MemoryEngine, StreamEngine, memory
from mercer.features import Features
from mercer.maps import BaseMap, DrawnMap, maps_for
from mercer.maps.base import check_features
from mercer.testing import check_map

from .instances import MAPS, name_of, rows_for

pytestmark = pytest.mark.covering(1)

every_map = pytest.mark.parametrize("feature_map", MAPS, ids=name_of)
KINDS = [RandomFourier, Nystroem, RandomMaclaurin]


def rows(seed, n=40, d=3):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d))


def fitted(feature_map, seed=0, n=40):
    return clone(feature_map).set_params(random_state=seed).fit(rows_for(feature_map, seed, n))


@pytest.mark.covering(1, feature_map=type)
@every_map
def test_contract(feature_map):
    check_map(feature_map)


def test_every_public_map_is_in_the_list():
    public = {getattr(mercer.maps, name) for name in mercer.maps.__all__}
    maps = {m for m in public if isinstance(m, type) and issubclass(m, BaseMap) and not inspect.isabstract(m)}
    # A deformed map takes any of the others, and learns from all rows: test_deformed.py. A grid of frequencies takes
    # one to three columns: fourier/test_grid_fourier.py.
    assert maps - {Deformed, mercer.GridFourier} == {type(m) for m in MAPS}


@parametrize_with_checks([RandomFourier(n_components=16), Nystroem(n_components=2), TensorSketch(n_components=16)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@given(feature_map=st.sampled_from(MAPS), seed=st.integers(0, 2**32), cut=st.integers(1, 39))
def test_transform_is_a_pure_function_of_single_rows(feature_map, seed, cut):
    m, X = fitted(feature_map, seed), rows_for(feature_map, seed + 1)
    before = X.copy()
    Z = m.transform(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(m.transform(X), Z)
    # Matrix products may sum in another order for another number of rows.
    close = {"rtol": 0, "atol": 1e-11 * np.abs(Z).max()}
    np.testing.assert_allclose(np.concatenate([m.transform(X[:cut]), m.transform(X[cut:])]), Z, **close)
    order = np.random.default_rng(seed).permutation(len(X))
    np.testing.assert_allclose(m.transform(X[order]), Z[order], **close)


@given(feature_map=st.sampled_from(MAPS), seed=st.integers(0, 2**32))
def test_equal_seeds_give_equal_features_and_copies_are_exact(feature_map, seed):
    m, X = fitted(feature_map, seed), rows_for(feature_map, seed + 1)
    Z = m.transform(X)
    np.testing.assert_array_equal(fitted(feature_map, seed).transform(X), Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).transform(X), Z)
    np.testing.assert_array_equal(clone(m).fit(rows_for(feature_map, seed)).transform(X), Z)
    with pytest.raises(NotFittedError):
        clone(m).transform(X)
    if feature_map.n_components > 1:  # a single component may be a constant, which is drawn with some probability
        assert not np.array_equal(fitted(feature_map, seed + 1).transform(X), Z)


@given(feature_map=st.sampled_from(MAPS), seed=st.integers(0, 2**32))
def test_sparse_and_float32_rows_give_the_same_features_to_rounding(feature_map, seed):
    m, X = fitted(feature_map, seed), rows_for(feature_map, seed + 1)
    X[X < 0] = 0.0
    Z = m.transform(X)
    for kind in (sp.csr_matrix, sp.csr_array, sp.coo_array):
        np.testing.assert_allclose(m.transform(kind(X)), Z, rtol=0, atol=1e-11 * np.abs(Z).max())
    Z32 = m.transform(X.astype(np.float32))
    assert Z32.dtype == (np.complex64 if np.iscomplexobj(Z) else np.float32)
    # An angle of size up to A is off by A times the roundoff; heavy tails (Matern 1/2) reach some hundreds here.
    np.testing.assert_allclose(Z32, Z, rtol=0, atol=1e-3 * np.abs(Z).max())


@every_map
def test_features_do_not_depend_on_the_number_of_threads(feature_map, monkeypatch):
    monkeypatch.setattr(memory, "TRANSFORM_BYTES", 1)  # many small blocks
    m, X = fitted(feature_map), rows_for(feature_map, 1, n=200)
    Z = m.set_params(n_jobs=1).transform(X)
    for jobs in (2, 3, None, -1):
        np.testing.assert_array_equal(m.set_params(n_jobs=jobs).transform(X), Z)


@every_map
@pytest.mark.filterwarnings("ignore:RandomMaclaurin. the predicted error")
def test_refitting_forgets_the_first_fit(feature_map):
    m = clone(feature_map).set_params(random_state=3).fit(rows_for(feature_map, 0))
    again = m.fit(rows_for(feature_map, 1, n=50))
    np.testing.assert_array_equal(
        again.transform(rows_for(feature_map, 2)),
        fitted_on(feature_map, rows_for(feature_map, 1, n=50)).transform(rows_for(feature_map, 2)),
    )
    kernel = Gaussian() if feature_map.accepts(Gaussian()) else feature_map.default_kernel
    wide = clone(feature_map).set_params(kernel=kernel, random_state=3).fit(rows_for(feature_map, 0))
    assert wide.fit(rows_for(feature_map, 1, d=5)).n_features_in_ == 5
    assert wide.transform(rows_for(feature_map, 1, d=5)).shape == (40, feature_map.n_components)


def fitted_on(feature_map, X):
    return clone(feature_map).set_params(random_state=3).fit(X)


@every_map
def test_features_have_names_and_a_width(feature_map):
    m = fitted(feature_map)
    names = m.get_feature_names_out()
    assert len(names) == m.transform(rows_for(feature_map, 0)).shape[1] == feature_map.n_components
    assert names[0] == f"{type(feature_map).__name__.lower()}0"


@every_map
def test_gram_is_the_product_of_features(feature_map):
    m, X, Y = fitted(feature_map), rows_for(feature_map, 1), rows_for(feature_map, 2, n=5)
    Z, W = m.transform(X), m.transform(Y)
    signs = 1.0 if m.signs_ is None else m.signs_
    np.testing.assert_allclose(m.gram(X, Y), (signs * Z @ W.conj().T).real, atol=1e-12)
    np.testing.assert_array_equal(m.gram(X), m.gram(X).T)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_components", [0, -1, 2.0, True, "10", None])
def test_wrong_widths_are_refused(kind, n_components):
    with pytest.raises(
        ParameterError, match=rf"{kind.__name__}: n_components must be an integer >= 1, got {n_components!r}"
    ):
        kind(Gaussian(), n_components).fit(rows(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["rbf", Gaussian, 1.0])
def test_objects_that_are_not_kernels_are_refused(kind, kernel):
    with pytest.raises(
        ParameterError, match=rf"{kind.__name__}: kernel must be a mercer kernel such as Gaussian\(\), got"
    ):
        kind(kernel).fit(rows(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.empty((0, 3)), r"Found array with 0 sample\(s\)"),
        (np.empty((3, 0)), r"0 feature\(s\)"),
        (np.zeros(3), "Expected 2D array"),
        (np.array([["a", "b", "c"]]), "rows must be numbers, got strings such as 'a'"),
        (np.array([[np.nan, 0.0, 0.0]]), "contains NaN"),
        (np.array([[np.inf, 0.0, 0.0]]), "contains infinity"),
    ],
)
@pytest.mark.filterwarnings("ignore:RandomMaclaurin. the predicted error")
def test_wrong_rows_are_refused_by_fit_and_by_transform(kind, X, text):
    m = kind(Gaussian(), 4)
    with pytest.raises(ValueError, match=text):
        m.fit(X)
    m.fit(rows(0))
    for call in (m.transform, m.gram):
        with pytest.raises(ValueError, match=text if X.shape != (3, 0) else "feature"):
            call(X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:RandomMaclaurin. the predicted error")
def test_rows_of_another_width_are_refused(kind):
    m = kind(Gaussian(), 4).fit(rows(0))
    for call in (m.transform, m.gram):
        with pytest.raises(ValueError, match=r"X has 4 features, but .* is expecting 3 features"):
            call(rows(0, d=4))


@pytest.mark.parametrize("kind", KINDS)
def test_transform_and_variance_need_a_fit(kind):
    for name in ("transform", "gram", "variance"):
        with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
            getattr(kind(Gaussian(), 4), name)(rows(0))


def test_zero_threads_are_refused():
    with pytest.raises(ParameterError, match=r"n_jobs must not be 0. Use None for all cores"):
        RandomFourier(Gaussian(), 4, n_jobs=0).fit(rows(0)).transform(rows(0))


def test_nested_parameters_replace_the_kernel():
    kernel = 2.0 * Matern(0.5)
    m = RandomFourier(kernel, 8).set_params(kernel__kernel__nu=2.5, n_components=9)
    assert m.kernel == 2.0 * Matern(2.5)
    assert kernel == 2.0 * Matern(0.5)
    assert m.get_params()["kernel__weight"] == 2.0
    m.set_params(kernel=Laplacian(), kernel__lengthscale=3.0)
    assert m.kernel == Laplacian(3.0)
    with pytest.raises(ParameterError, match=r"Laplacian: there is no parameter nu\. Laplacian has lengthscale\."):
        m.set_params(kernel__nu=1.0)
    assert m.with_kernel(Gaussian()).kernel == Gaussian()
    assert m.kernel == Laplacian(3.0)


def test_the_error_for_no_closed_form_recommends_audit():
    with pytest.raises(NoClosedFormError, match=r"Nystroem has no closed form for its variance. Try mercer.audit"):
        Nystroem(Gaussian(), 4).fit(rows(0)).variance(rows(0))


def test_files_are_refused():
    frame = pd.DataFrame(rows(0), columns=list("abc"))
    source = mercer.open_rows(frame)
    with pytest.raises(
        DataError, match=r"RandomFourier: fit takes rows in memory, got RowSource\. Try a sample of the rows, or pass"
    ):
        RandomFourier().fit(source)
    feature_map = RandomFourier(random_state=0).fit(rows(0))
    with pytest.raises(
        DataError, match=r"transform takes rows in memory.* one block after another: for X, \*_ in rows"
    ):
        feature_map.transform(source)
    parts = [feature_map.transform(X) for X, *_ in source]
    assert np.allclose(np.concatenate(parts), feature_map.transform(rows(0)))


# ---- the contract ------------------------------------------------------------------------------


def test_abstract_methods_of_the_bases():
    public = {getattr(mercer.maps, name) for name in mercer.maps.__all__}
    maps = {m for m in public if isinstance(m, type) and issubclass(m, BaseMap)}
    assert {m for m in maps if inspect.isabstract(m)} == {BaseMap, DrawnMap}
    assert {m for m in maps if not issubclass(m, DrawnMap)} == {BaseMap, mercer.GridFourier}  # a grid is not drawn
    assert DrawnMap.__abstractmethods__ == {"accepts", "unbiased", "_draw"}
    assert {"unbiased", "fit_engine", "check", "grown"} < BaseMap.__abstractmethods__
    # A drawn map is fitted in one way, and other maps have no draw.
    # Sums of maps that have kernels of their own fit these to all rows.
    fitted_otherwise = {m for m in maps if issubclass(m, DrawnMap) and m.fit_engine is not DrawnMap.fit_engine}
    assert fitted_otherwise == {mercer.SumMap}
    assert not {"_draw", "fit_sample", "rows_wanted", "sample_seed"} & set(dir(Deformed))


class OwnFeatures(Features):
    """Features of a user: the rows times a matrix."""

    def __init__(self, weights):
        self.weights = weights
        self.n_components = weights.shape[1]

    def astype(self, dtype):
        return OwnFeatures(self.weights.astype(dtype))

    def __call__(self, X, out):
        out[:] = X @ self.weights


class OwnMap(DrawnMap):
    """A map of a user, with no more than what the contract asks for."""

    needs = "the linear kernel"

    def __init__(self, kernel=None, n_components=512, *, random_state=None, n_jobs=None):
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel):
        return kernel == Polynomial(1, coef0=0.0)

    @property
    def unbiased(self):
        return True

    def _draw(self, kernel, X, weight, rng):
        return OwnFeatures(rng.normal(size=(X.shape[1], self.n_components)) / np.sqrt(self.n_components))


def test_a_users_map_needs_accepts_unbiased_and_draw_only():
    linear = Polynomial(1, coef0=0.0)
    m = OwnMap(linear, 20, random_state=0)
    check_map(m)
    X, y = rows(0), rows(0)[:, 0]
    assert m.rows_wanted() == 1
    assert (m.exact_components(linear, 3), m.least_components(linear)) == (None, 1)
    assert m.with_independent_components(linear, 5) is None
    assert KernelRidge(m, alpha=1e-3).fit(X, y).score(X, y) > 0.5
    # It is not in the table of maps, and may be a part of other maps where it is given.
    assert OwnMap not in maps_for(linear)
    SumMap(linear + Matern(), 20, maps=[m, RandomFourier()], random_state=0).fit(X)
    CompositionMap(ExponentialDotProduct() @ linear, 20, inner_map=m, random_state=0).fit(0.1 * X)
    with pytest.raises(UnsupportedKernelError, match=r"OwnMap cannot approximate .*\n  needs: the linear kernel\n"):
        OwnMap(Gaussian(), 20).fit(X)
    with pytest.raises(NoClosedFormError, match="OwnMap has no closed form for its variance"):
        m.fit(X).variance(X)


def test_a_map_that_is_not_drawn_cannot_be_a_part_of_another_map():
    X = rows(0)
    text = r"^Deformed cannot be a part of another map\.\n  needs: to be the outermost map"
    for combined in (
        SumMap(Gaussian() + Matern(), 20, maps=[Deformed(), RandomFourier()]),
        ProductMap(Gaussian() * Matern(), 20, maps=[RandomFourier(), Deformed()]),
        CompositionMap(ExponentialDotProduct() @ Gaussian(), 20, inner_map=Deformed()),
    ):
        with pytest.raises(UnsupportedKernelError, match=text):
            combined.fit(X)


def test_a_drawn_map_stays_as_it_is_when_rows_are_added():
    m = RandomFourier(Gaussian(), 8, random_state=0).fit(rows(0))
    assert m.refuses_rows is None
    assert m.grown(MemoryEngine(rows(1), block_rows=10)) == (m, None)


def test_complex_features_and_signs_are_refused_by_learners():
    X = np.random.default_rng(0).normal(size=(20, 3))
    check_features("Learner", RandomFourier(Gaussian(), 30).fit(X))
    with pytest.raises(ParameterError, match=r"Learner needs real features, got .*form='complex'.* Use form='pairs'"):
        check_features("Learner", RandomFourier(Gaussian(), 30, form="complex").fit(X))
    kernel = DotProduct((0.5, 1.0, -0.8), signed=True)
    signed = RandomMaclaurin(kernel, 9, random_state=0).fit(X)
    assert (signed.signs_ < 0).any()
    with pytest.raises(ParameterError, match=r"Learner needs a positive definite kernel, .* by RandomMaclaurin have"):
        check_features("Learner", signed)


# ---- drawing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "feature_map",
    [
        Nystroem(Gaussian(1.0), 50),
        RandomMaclaurin(Polynomial(1), 50),
        SumMap(Polynomial(1) + Polynomial(1), 50, maps=[RandomMaclaurin(), RandomMaclaurin()]),
    ],
    ids=lambda m: type(m).__name__,
)
def test_warnings_point_to_the_call_of_fit(feature_map):
    with pytest.warns(mercer.MercerWarning, match="are zero") as caught:
        feature_map.fit(rows(0))
    assert {warning.filename for warning in caught} == {__file__}


def test_maps_of_resolved_kernels_need_only_the_width_of_rows():
    assert not RandomFourier(Gaussian(1.0)).needs_rows()
    assert RandomFourier(Gaussian("median")).needs_rows()
    assert Nystroem(Gaussian(1.0), 1).needs_rows()
    assert Deformed(RandomFourier(Gaussian(1.0))).needs_rows()
    once = StreamEngine(iter([(rows(0),)]), lambda X: (X, None, None))
    assert RandomFourier(Gaussian(1.0), 4).fit_engine(once).n_features_in_ == 3
    once = StreamEngine(iter([(rows(0),)]), lambda X: (X, None, None))
    with pytest.raises(DataError, match=r"RandomFourier.*learns from rows before.*can be read only once"):
        RandomFourier(Gaussian("median"), 4).fit_engine(once)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [40, 3000], ids=["all", "a-sample"])
def test_fit_and_fit_engine_agree_for_all_block_sizes(kind, n):
    X = rows(0, n)
    expected = kind(n_components=4, random_state=1).fit(X)
    for engine in (
        MemoryEngine(X, block_rows=17),
        MemoryEngine(X, None, np.ones(n), block_rows=4000),
        StreamEngine([(X[:11],), (X[11:],)], lambda X: (X, None, None)),
    ):
        found = kind(n_components=4, random_state=1).fit_engine(engine)
        assert found.kernel_ == expected.kernel_
        np.testing.assert_array_equal(found.transform(X[:5]), expected.transform(X[:5]))


def test_all_rows_are_used_without_a_copy():
    X = np.abs(rows(0, 500))
    sample, weight = ThresholdFeatures(Intersection(), 8)._sample(MemoryEngine(X, block_rows=50))
    assert sample is X
    assert weight is None
    assert RandomFourier(Gaussian(1.0))._sample(MemoryEngine(X, block_rows=50))[0].shape == (1, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:RandomMaclaurin. the predicted error")
def test_a_failed_fit_changes_nothing(kind):
    X = rows(0)
    m = kind(Gaussian(1.0), 4, random_state=0).fit(X)
    before = m.transform(X)
    with pytest.raises(ParameterError):
        m.set_params(n_components=0).fit(rows(1, d=5))
    np.testing.assert_array_equal(m.transform(X), before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_median_of_one_row_is_refused(kind):
    with pytest.raises(
        ValueError, match="needs at least two different rows to take a median distance, got n_samples=1"
    ):
        kind(Gaussian("median"), 1).fit(rows(0, n=1))
    with pytest.raises(ValueError, match="got n_samples=5 equal rows"):
        kind(n_components=1).fit(np.ones((5, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_median_is_resolved_on_a_seeded_sample(kind):
    X = rows(0, n=3000)
    first, again = (kind(n_components=4, random_state=1).fit(X) for _ in range(2))
    assert first.kernel is None
    assert first.kernel_ == again.kernel_
    # Distances have mean near 2.3 and spread near 0.9; a thousand rows put the median within a twentieth.
    exact = Gaussian("median").resolve(X[:1000]).lengthscale
    assert first.kernel_.lengthscale == pytest.approx(exact, rel=0.05)
    assert kind(n_components=4, random_state=2).fit(X).kernel_ != first.kernel_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:RandomMaclaurin. the predicted error")
def test_every_kind_of_seed_is_accepted(kind):
    X = rows(0)
    for make in (
        lambda: 5,
        lambda: np.random.default_rng(5),
        lambda: np.random.RandomState(5),
        lambda: np.int64(5),
    ):
        one, two = (kind(Gaussian(), 4, random_state=make()).fit_transform(X) for _ in range(2))
        np.testing.assert_array_equal(one, two)
    for wrong in (-1, "seed", 1.5):
        with pytest.raises(
            ParameterError, match="random_state must be None, an integer >= 0, or a numpy Generator or RandomState, got"
        ):
            kind(Gaussian(), 4, random_state=wrong).fit(X)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_are_ignored(kind):
    X, weight = rows(0), np.repeat([1.0, 0.0], 20)
    kept = kind(Gaussian("median"), 4, random_state=0).fit_sample(X[:20])
    weighted = kind(Gaussian("median"), 4, random_state=0).fit_sample(X, weight)
    assert weighted.kernel_ == kept.kernel_
    np.testing.assert_array_equal(weighted.transform(X), kept.transform(X))


# ---- scales of columns ------------------------------------------------------------------------

SCALES = np.random.default_rng(5).normal(size=(400, 3)) * [1.0, 2.0, 5000.0]
RARE = (np.random.default_rng(6).random((400, 3)) < [0.5, 0.1, 0.02]) * [1.0, 1.0, 1.0]


def test_columns_of_very_different_scales_warn():
    words = (
        r"^RandomFourier: columns of X with one lengthscale have scales that differ by a factor of 5e\+03: 0\.98 of "
        r"column 0, 4\.8e\+03 of column 2\. The kernel hardly depends on columns of small scale\. Divide columns by "
        r"their spread with mercer\.ScaledColumns\(RandomFourier\(\.\.\.\)\), or give one lengthscale per column: "
        r"mercer\.Transformed\(kernel, lengthscales=\[\.\.\.\]\)\.$"
    )
    with pytest.warns(MercerWarning, match=words):
        RandomFourier(Gaussian("median"), 8, random_state=0).fit(SCALES)
    with pytest.warns(MercerWarning, match="of column 'x'.*of column 'z'"):
        Nystroem(Matern(), 8, random_state=0).fit(pd.DataFrame(SCALES, columns=list("xyz")))
    with pytest.warns(MercerWarning, match=r"ScaledColumns\(RandomFourier\(\.\.\.\)\)"):
        RandomFourier(Gaussian(), 8, random_state=0).fit(sp.csr_matrix(SCALES * RARE))
    with pytest.warns(MercerWarning, match="0.98 of column 0, 4.8e.03 of column 2"):
        SumMap(Gaussian() + Polynomial(2), 64).fit(SCALES)
    with pytest.warns(MercerWarning, match="0.98 of column 0, 4.8e.03 of column 2"):
        RandomFourier(Transformed(Gaussian(), columns=[2, 0]), 8).fit(SCALES)


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (Gaussian(), SCALES / [1.0, 2.0, 50.0]),  # a factor of 100
        (Gaussian(), SCALES[:10]),  # too few rows to know
        (Gaussian(), np.column_stack([SCALES[:, :2], np.full(400, 1e9)])),  # a constant
        (Gaussian(), np.column_stack([SCALES[:, :2], 1e9 + SCALES[:, 0] * 1e-7])),  # a constant up to rounding
        (Gaussian(), np.column_stack([SCALES[:, 0], (np.arange(400) == 7) * 1e-5])),  # almost a constant
        (Gaussian(), (np.random.default_rng(0).random((20_000, 2)) < [0.5, 5e-3]) * 1.0),  # a rare indicator
        (Gaussian(), sp.csr_matrix(RARE)),
        (Gaussian(), (RARE - RARE.mean(axis=0)) / RARE.std(axis=0)),  # standardized
        (Gaussian(), (SCALES - SCALES.mean(axis=0)) / SCALES.std(axis=0)),
        (Gaussian(), SCALES[:, 2:]),  # one column
        (Transformed(Gaussian(), lengthscales=[1.0, 2.0, 5000.0]), SCALES),
        (Transformed(Gaussian(), columns=[0, 1]) * Transformed(Gaussian(), columns=[2]), SCALES),
        (Polynomial(2), SCALES),  # no lengthscale
        (Chi2(), np.abs(SCALES)),
    ],
)
def test_other_columns_do_not_warn(kernel, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Nystroem(kernel, 4, random_state=0).fit(X)


def test_the_suggested_lines_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ScaledColumns(RandomFourier(Gaussian("median"), 8)).fit(SCALES)
        ScaledColumns(RandomFourier(Gaussian("median"), 8)).fit(sp.csr_matrix(SCALES * RARE))
        RandomFourier(Transformed(Gaussian("median"), lengthscales=SCALES.std(axis=0)), 8).fit(SCALES)


def test_extreme_scales_are_compared_without_overflow():
    with pytest.warns(MercerWarning, match=r"a factor of .e\+30"):
        RandomFourier(Gaussian(1e150), 8, random_state=0).fit(SCALES * [1e-150, 1.0, 1e150])
