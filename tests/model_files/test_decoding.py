"""Forged objects are refused: what classes, nesting, repetition, sizes and compiled code would do with them."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import Gaussian, KernelRidge, ModelFileError, Nystroem, Polynomial, RandomFourier, TensorSketch
from mercer.io.archive import ArchiveError
from mercer.io.sealed import SealedArchive, write_sealed
from mercer.model_files import decoding
from mercer.model_files.decoding import decode
from mercer.model_files.files import FORMAT, LABEL

X = np.random.default_rng(0).normal(size=(30, 3))
KERNEL = {"type": "object", "class": "Gaussian", "attributes": {"lengthscale": 1.0}}


def small(values):
    array = np.asarray(values)
    return {
        "type": "small array",
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "hex": array.tobytes().hex(),
    } | {"fortran": False}


def decoded(*objects, arrays=()):
    return decode(list(objects), list(arrays), FORMAT)


def refused(*objects, arrays=()):
    with pytest.raises(ArchiveError) as caught:
        decoded(*objects, arrays=arrays)
    return str(caught.value)


def changed(model, folder, change):
    """Return the error for the file of a model, after a change of its header and arrays, with new digests."""
    path = mercer.save_model(model, folder / "m.mercer")
    archive = SealedArchive(io.BytesIO(path.read_bytes()), LABEL)
    content, arrays = archive.content, archive.arrays()
    change(content["objects"], arrays)
    write_sealed(path, LABEL, content, arrays)
    with pytest.raises(ModelFileError) as caught:
        mercer.load_model(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "mercer.Gaussian", "Kernel", "", "__class__"])
def test_classes_outside_of_the_registry_are_refused(name):
    assert "does not know" in refused({**KERNEL, "class": name})


def test_functions_outside_of_the_registry_are_refused():
    state = {"coefficients": {"function": "os.system"}, "radius": 1.0, "signed": False, "formula": None}
    assert "function 'os.system'" in refused({"type": "object", "class": "DotProduct", "attributes": state})


@pytest.mark.parametrize("key", ["predict", "fit", "__class__", "__dict__", "_check", "default_kernel", "a b", "score"])
def test_attributes_cannot_replace_code(key):
    state = {"kernel": None, "n_components": 8, key: 3}
    assert "no attribute of the state" in refused({"type": "object", "class": "RandomFourier", "attributes": state})


def test_values_must_have_the_declared_types():
    text = refused({**KERNEL, "attributes": {"lengthscale": "long"}})
    assert "Gaussian has lengthscale, an object of the type str" in text
    assert "Kernel is needed" in refused(
        {"type": "list", "items": []},
        {"type": "object", "class": "Sum", "attributes": {"left": [0], "right": [0]}},
    )


def test_parameters_of_kernels_are_those_that_constructors_accept():
    assert "lengthscale" in refused({**KERNEL, "attributes": {"lengthscale": -1.0}})


def test_references_go_to_previous_objects():
    for index in (1, 2, -1, True, "0", None):
        assert "not a previous object" in refused(KERNEL, {"type": "list", "items": [[index]]})


def test_nesting_is_limited():
    chain = [{"type": "list", "items": []}, *({"type": "list", "items": [[i]]} for i in range(100_000))]
    assert "levels deep" in refused(*chain)


def test_repetition_is_limited():
    doubled = [KERNEL]
    doubled += [{"type": "object", "class": "Sum", "attributes": {"left": [i], "right": [i]}} for i in range(60)]
    assert "repeat the same parts" in refused(*doubled)


def test_keys_of_equal_hashes_are_limited():
    """A dictionary of so many would take minutes."""
    items = [[i * (2**61 - 1), 0] for i in range(100_000)]
    assert "keys that are not strings" in refused({"type": "dict", "items": items})


@pytest.mark.parametrize("shape", [[2**40], [10**6, 10**6], [-1], [2**30, 0], [True, 3], "ab", [1] * 40])
def test_shapes_must_be_those_of_the_bytes(shape):
    assert refused({**small(np.zeros(3)), "shape": shape})


@pytest.mark.parametrize("dtype", ["|O", "<f16", "<U0", "V8", "<i3", "f8,f8", 3, None])
def test_types_of_arrays_are_numbers_strings_or_times(dtype):
    assert "the type" in refused({**small(np.zeros(3)), "dtype": dtype})


def test_booleans_are_0_or_1(tmp_path):
    forged = {**small(np.zeros(4, bool)), "hex": "00020100"}
    assert "neither 0 nor 1" in refused(forged)
    write_sealed(tmp_path / "a", LABEL, {}, [np.full(500, 2, np.uint8).view(bool)])
    with open(tmp_path / "a", "rb") as file, pytest.raises(ArchiveError, match="neither 0 nor 1"):
        SealedArchive(file, LABEL).arrays()


def test_sparse_matrices_have_indices_inside():
    def parts(indices, indptr, shape):
        arrays = [small(np.ones(2)), small(np.array(indices)), small(np.array(indptr))]
        return [*arrays, {"type": "csr_array", "parts": [[0], [1], [2]], "shape": shape}]

    assert isinstance(decoded(*parts([0, 1], [0, 1, 2], [2, 3])), sp.csr_array)
    for indices, indptr, shape in (
        ([0, 3], [0, 1, 2], [2, 3]),
        ([0, -1], [0, 1, 2], [2, 3]),
        ([0, 1], [0, 9, 2], [2, 3]),
        ([0, 1], [0, 1, 2], [3, 3]),
        ([0.0, 1.0], [0, 1, 2], [2, 3]),
    ):
        assert refused(*parts(indices, indptr, shape))


@pytest.mark.parametrize("position", [-1, 625, 2**31 - 1, 0.5, True])
def test_generators_are_at_a_position_of_their_buffer(position):
    """NumPy reads outside of the buffer otherwise."""
    key = np.arange(624, dtype=np.uint32)
    state = [["bit_generator", "MT19937"], ["state", [1]], ["has_gauss", 0], ["gauss", 0.0]]
    objects = [
        {"type": "array", "array": 0},
        {"type": "dict", "items": [["key", [0]], ["pos", position]]},
        {"type": "dict", "items": state},
        {"type": "RandomState", "state": [2]},
    ]
    if position is not True:
        assert refused(*objects, arrays=[key])
    objects[1]["items"][1][1] = 624
    assert isinstance(decoded(*objects, arrays=[key]), np.random.RandomState)


def test_triangles_have_as_many_entries_as_their_shape():
    array = np.arange(6.0)
    matrix = decoded(
        {"type": "array", "array": 0}, {"type": "triangle", "packed": [0], "shape": [3, 3]}, arrays=[array]
    )
    assert matrix.tolist() == [[0, 1, 2], [0, 3, 4], [0, 0, 5]]
    for shape in ([3, 2], [6, 1], [2, 3], [10**6, 1], [2, 2, 2]):
        entry = {"type": "triangle", "packed": [0], "shape": shape}
        assert refused({"type": "array", "array": 0}, entry, arrays=[array])


def test_buckets_of_a_sketch_are_components(tmp_path):
    def change(objects, arrays):
        state = next(one["attributes"] for one in objects if one.get("class") == "CountSketch")
        objects[state["buckets"][0]] = small(np.array([0, 10**6, 1], np.int32))

    assert "buckets must be indices" in changed(TensorSketch(Polynomial(2), 9, random_state=0).fit(X), tmp_path, change)


def test_near_rows_are_rows(tmp_path):
    """A product of SciPy would read outside of the residuals."""
    model = KernelRidge(Nystroem(Gaussian(), 10, random_state=0), neighbors=5).fit(X, X[:, 0])

    def change(objects, arrays):
        state = next(one["attributes"] for one in objects if one.get("class") == "PackedRows")
        order = objects[state["order"][0]]
        where = arrays[order["array"]]
        where[where >= 0] += 10**7

    assert "do not fit together" in changed(model, tmp_path, change)


def test_panels_of_cells_are_panels(tmp_path):
    """The product of this start with the rows of a panel overflows to the right number."""
    model = KernelRidge(Nystroem(Gaussian(), 10, random_state=0), neighbors=5).fit(X, X[:, 0])

    def change(objects, arrays):
        state = next(one["attributes"] for one in objects if one.get("class") == "PackedRows")
        starts = model.local_.model.problem.index._packed.starts.copy()
        starts[-1] += 2**60
        objects[state["starts"][0]] = small(starts)

    assert "panels" in changed(model, tmp_path, change)


def test_arrays_that_do_not_fit_together_are_refused(tmp_path):
    def change(objects, arrays):
        arrays[0] = np.ascontiguousarray(arrays[0][:, :-1])

    text = changed(RandomFourier(Gaussian(), 40, random_state=0).fit(X), tmp_path, change)
    assert "do not fit together: transform fails" in text


@pytest.mark.parametrize("size", [10**9, -1, 2**62])
def test_numbers_of_components_are_limited(size, tmp_path):
    def change(objects, arrays):
        next(one["attributes"] for one in objects if one.get("class") == "TrigFeatures")["n_components"] = size

    assert "n_components" in changed(RandomFourier(Gaussian(), 40, random_state=0).fit(X), tmp_path, change)


def test_pipelines_have_no_memory():
    pipeline = {"steps": [1], "memory": "/some/folder", "transform_input": None, "verbose": False}
    objects = [
        {"type": "object", "class": "ColumnScaler", "attributes": {"method": "spread"}},
        {"type": "tuple", "items": ["a", [0]]},
        {"type": "list", "items": [[1]]},
        {"type": "object", "class": "Pipeline", "attributes": {**pipeline, "steps": [2]}},
    ]
    assert "pipeline" in refused(*objects)
    objects[-1]["attributes"]["memory"] = None
    assert decoded(*objects).steps[0][0] == "a"


def test_attributes_of_previous_formats_are_renamed(monkeypatch):
    def renamed(attributes):
        return {"lengthscale": attributes.pop("sigma"), **attributes}

    monkeypatch.setitem(decoding.UPGRADES, ("Gaussian", FORMAT), renamed)
    assert decoded({**KERNEL, "attributes": {"sigma": 0.5}}) == Gaussian(0.5)


def test_parameters_that_previous_versions_did_not_have_get_their_defaults():
    model = decoded({"type": "object", "class": "KernelRidge", "attributes": {"feature_map": None}})
    assert model.get_params() == KernelRidge().get_params()
    half = {"type": "object", "class": "Sum", "attributes": {"left": [0]}}
    assert "no value for right of Sum" in refused(KERNEL, half)
