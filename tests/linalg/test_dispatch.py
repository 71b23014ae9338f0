"""The choice of kernels at import, and the fallback to NumPy where the extension is not installed."""

import inspect
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import linalg
from mercer.linalg import cosines, dispatch, numpy_kernels
from mercer.linalg.dispatch import canonical, native

WITHOUT_EXTENSION = """
import sys, warnings
sys.modules["mercer.linalg._native"] = None  # makes its import fail
from concurrent.futures import ThreadPoolExecutor
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from mercer import linalg
    assert linalg.instruction_set() == "numpy"
    assert not caught, caught
    def pairs(_):
        return linalg.sincos_pairs(np.array([[0.0, 1.0]]), 2.0, np.empty((1, 4)))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(pairs, range(64)))
    linalg.cosines(np.zeros((1, 1)), np.zeros(1), 1.0, np.empty((1, 1)))
    [warning] = caught
assert warning.category is RuntimeWarning
assert warning.filename == "<string>", warning.filename
for result in results:
    np.testing.assert_allclose(result, 2 * np.array([[1, np.cos(1), 0, np.sin(1)]]))
print(warning.message)
"""


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_without_the_extension_numpy_is_used_with_one_warning():
    done = run(WITHOUT_EXTENSION)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "mercer: the compiled kernels are not installed; the NumPy implementations are used instead, with results "
        "that are equal up to rounding but several times slower. Install a C++ compiler and reinstall mercer.\n"
    )


def test_import_needs_only_numpy_and_the_lazy_loader():
    script = "import sys; import mercer.linalg; print(*{name.partition('.')[0] for name in sys.modules})"
    done = run(script)
    assert done.returncode == 0, done.stderr
    foreign = set(done.stdout.split()) - set(sys.stdlib_module_names) - set(run_plain_modules())
    assert foreign <= {"mercer", "numpy", "lazy_loader"}


def run_plain_modules():
    """Return the modules that the interpreter of this environment loads at startup."""
    return run("import sys; print(*{name.partition('.')[0] for name in sys.modules})").stdout.split()


def test_best_supported_instruction_set_is_in_use():
    native = pytest.importorskip("mercer.linalg._native")
    supported = native.supported()
    assert supported[-1] == "baseline"
    assert supported == [name for name in ("avx512", "avx2", "baseline") if name in supported]
    assert linalg.instruction_set() == supported[0]
    assert dispatch.kernels._module is getattr(native, supported[0])


def test_compiled_kernels_have_the_parameters_of_the_numpy_kernels(kernels):
    for name in set(numpy_kernels.__all__) - {
        "FUNCTION_NAMES",
        "FloatArray",
        "FunctionName",
        "PROFILES",
        "ProfileName",
    }:
        parameters = list(inspect.signature(getattr(numpy_kernels, name)).parameters)
        signatures = getattr(kernels, name).__doc__.splitlines()
        # float32 and float64; local systems also have features in float32 and the others in float64.
        assert len(signatures) == (3 if name == "solve_local" else 2), name
        for signature in signatures:
            assert re.findall(r"[(,] ?(\w+): ", signature) == parameters


def test_read_only_inputs_are_accepted(dtype):
    X, signs, radii = np.ones((3, 4), dtype), np.ones((1, 3, 4), dtype), np.ones(4, dtype)
    for array in (X, signs, radii):
        array.flags.writeable = False
    found, expected = np.empty((2, 3, 8), dtype)
    linalg.sign_hadamard_pairs(X, signs, radii, np.float32(0.5), found)
    numpy_kernels.sign_hadamard_pairs(X, signs, radii, 0.5, expected)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_empty_rows(dtype):
    empty = np.empty((0, 4), dtype)
    assert linalg.sincos_pairs(empty, 1.0, np.empty((0, 8), dtype)).shape == (0, 8)
    assert linalg.sincos_pairs(np.empty((3, 0), dtype), 1.0, np.empty((3, 0), dtype)).shape == (3, 0)
    assert linalg.cosines(empty, np.ones(4, dtype), 1.0, empty) is empty
    signs = np.ones((1, 3, 4), dtype)
    assert linalg.sign_hadamard(empty, signs, np.empty((0, 4), dtype)).shape == (0, 4)
    assert linalg.dense(empty, np.ones((4, 5), dtype), np.empty((0, 5), dtype)).shape == (0, 5)
    assert linalg.dense(empty, np.ones((4, 0), dtype), np.empty((0, 0), dtype)).shape == (0, 0)
    nothing = linalg.dense(np.ones((2, 0), dtype), np.ones((0, 3), dtype), np.ones((2, 3), dtype))
    np.testing.assert_array_equal(nothing, 0)


def test_threads_over_row_blocks_give_exactly_the_result_of_one_call(dtype):
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(300, 20)).astype(dtype), rng.choice([-1.0, 1.0], (9, 3, 32)).astype(dtype)
    radii = rng.normal(size=280).astype(dtype)
    one, many = np.empty((2, 300, 560), dtype)
    linalg.sign_hadamard_pairs(X, signs, radii, 0.1, one)
    blocks = [slice(start, start + 7) for start in range(0, 300, 7)]

    def work(rows):
        linalg.sign_hadamard_pairs(X[rows], signs, radii, 0.1, many[rows])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, blocks))
    np.testing.assert_array_equal(many, one)


def test_compiled_kernels_reject_wrong_shapes(kernels, dtype):
    matrix, signs = np.ones((3, 4), dtype), np.ones((1, 1, 4), dtype)
    mixing, multipliers, factors = np.ones((2, 4), dtype), np.zeros((1, 2, 4), dtype), np.ones((1, 4), dtype)
    order, out, weights = np.arange(4)[None], np.empty((3, 4), dtype), np.ones((4, 4), dtype)
    for call in (
        lambda: kernels.butterfly(matrix, mixing[:1], order, multipliers, factors, out),
        lambda: kernels.butterfly(matrix, mixing, order + 1, multipliers, factors, out),
        lambda: kernels.butterfly(matrix, mixing, order - 1, multipliers, factors, out),
        lambda: kernels.butterfly(matrix, mixing, order, multipliers[:, :1], factors, out),
        lambda: kernels.butterfly(matrix, mixing, order, multipliers, factors[:, :2], out),
        lambda: kernels.butterfly(matrix, mixing, order, multipliers, factors, np.empty((3, 5), dtype)),
        lambda: kernels.butterfly(matrix, mixing, order, multipliers, factors, out, np.ones(3, dtype)),
        lambda: kernels.butterfly_pairs(matrix, mixing, order, multipliers, factors, np.ones(5, dtype), 1.0, out),
        lambda: kernels.dense(matrix, weights[:3], out),
        lambda: kernels.dense(matrix, weights, out[:2]),
        lambda: kernels.dense(matrix, weights, np.empty((3, 5), dtype)),
        lambda: kernels.dense_pairs(matrix, weights, 1.0, np.empty((3, 9), dtype)),
        lambda: kernels.dense_cosines(matrix, weights, np.ones(3, dtype), 1.0, out),
        lambda: kernels.sign_hadamard(matrix, signs, out, np.ones(3, dtype)),
        lambda: kernels.sincos_pairs(matrix, 1.0, np.empty((3, 9), dtype)),
        lambda: kernels.sincos_pairs(matrix, 1.0, np.empty((2, 8), dtype)),
        lambda: kernels.sincos_pairs(np.asfortranarray(matrix), 1.0, np.empty((3, 8), dtype)),
        lambda: kernels.cosines(matrix, np.ones(3, dtype), 1.0, matrix),
        lambda: kernels.sign_hadamard(matrix, signs, np.empty((3, 5), dtype)),
        lambda: kernels.sign_hadamard(matrix, signs[..., :2], np.empty((3, 2), dtype)),
        lambda: kernels.sign_hadamard_pairs(matrix, signs, np.ones(5, dtype), 1.0, np.empty((3, 8), dtype)),
    ):
        with pytest.raises(ValueError, match="shapes or strides do not fit"):
            call()


def test_compiled_kernels_reject_unknown_functions(kernels, dtype):
    X, weights = np.ones((3, 4), dtype), np.ones((4, 4), dtype)
    with pytest.raises(ValueError, match="no such function: tanh"):
        kernels.dense(X, weights, np.empty((3, 4), dtype), "tanh")


def test_public_functions_pass_all_arguments_to_the_kernels(dtype):
    rng = np.random.default_rng(8)
    X, signs, radii = rng.normal(size=(5, 4)), rng.choice([-1.0, 1.0], (2, 2, 4)), rng.normal(size=7)
    X, signs, radii = X.astype(dtype), signs.astype(dtype), radii.astype(dtype)
    weights, angle = rng.normal(size=(4, 7)).astype(dtype), np.array([[1.0], [2.0]])
    angles = [np.hstack([angle, 3 * angle]), angle]
    plan = linalg.butterfly_plan([np.cos(a) for a in angles], [np.sin(a) for a in angles]).astype(dtype)
    arrays = plan.arrays
    options = {"function": "relu", "scale": 0.5, "product": True}
    for call, reference in (
        (
            lambda out: linalg.sign_hadamard(X, signs, out, radii=radii, **options),
            lambda out: numpy_kernels.sign_hadamard(X, signs, out, radii, "relu", 0.5, True),
        ),
        (
            lambda out: linalg.butterfly(X, signs[0], plan, out, radii=radii, **options),
            lambda out: numpy_kernels.butterfly(X, signs[0], *arrays, out, radii, "relu", 0.5, True),
        ),
        (
            lambda out: linalg.dense(X, weights, out, **options),
            lambda out: numpy_kernels.dense(X, weights, out, "relu", 0.5, True),
        ),
        (
            lambda out: linalg.dense_cosines(X, weights, radii, 0.5, out),
            lambda out: numpy_kernels.dense_cosines(X, weights, radii, 0.5, out),
        ),
        (
            lambda out: linalg.dense_pairs(X, weights[:, :4], 0.5, out),
            lambda out: numpy_kernels.dense_pairs(X, weights[:, :4], 0.5, out),
        ),
        (
            lambda out: linalg.butterfly_pairs(X, signs[0], plan, radii, 0.5, out),
            lambda out: numpy_kernels.butterfly_pairs(X, signs[0], *arrays, radii, 0.5, out),
        ),
    ):
        found, expected = np.full((2, 5, 7), 3.0, dtype)
        assert call(found) is found
        reference(expected)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


# ---- memory layouts of rows ------------------------------------------------------------------------------------------


def misaligned(X):
    buffer = bytearray(X.nbytes + 1)
    buffer[1:] = X.tobytes()
    return np.frombuffer(buffer, dtype=X.dtype, offset=1).reshape(X.shape)


def test_arrays_are_copied_only_if_they_are_misaligned():
    X = np.arange(6.0).reshape(2, 3)
    assert canonical(X) is X
    assert np.shares_memory(canonical(X.T), X)
    odd = misaligned(X)
    assert not odd.flags.aligned
    assert canonical(odd).flags.aligned
    np.testing.assert_array_equal(canonical(odd), X)


def test_sparse_rows_become_canonical_without_changing_the_argument():
    X = sp.csr_array(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]))
    assert canonical(X) is X
    doubled = sp.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    unsorted = sp.csr_array((np.array([2.0, 1.0, 3.0]), np.array([2, 1, 0]), X.indptr), shape=X.shape)
    odd = X.copy()
    odd.data = misaligned(odd.data)
    for rows in (doubled, unsorted, odd):
        before = rows.data.copy()
        result = canonical(rows)
        assert result.has_canonical_format
        assert result.data.flags.aligned
        np.testing.assert_array_equal(result.data, X.data)
        np.testing.assert_array_equal(result.indices, X.indices)
        np.testing.assert_array_equal(rows.data, before)


def test_byte_order_is_that_of_the_machine_and_precision_is_preserved():
    X = np.arange(4.0, dtype=np.float32).reshape(2, 2)
    swapped = X.astype(X.dtype.newbyteorder())
    assert native(swapped).dtype == np.float32
    np.testing.assert_array_equal(native(swapped), X)
    assert native(X) is X
    assert native("rows") == "rows"


def test_compiled_functions_copy_misaligned_inputs_and_refuse_misaligned_outputs():
    X, phases = np.random.default_rng(0).normal(size=(2, 3)), np.arange(3.0)
    expected = cosines(X, phases, 1.0, np.empty((2, 3)))
    found = cosines(misaligned(X), misaligned(phases), 1.0, np.empty((2, 3)))
    assert np.array_equal(found, expected)
    with pytest.raises(ValueError, match="out must be aligned in memory"):
        cosines(X, phases, 1.0, misaligned(np.empty((2, 3))))
