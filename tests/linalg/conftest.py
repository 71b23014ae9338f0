"""The compiled kernel sets that this machine can run, and arrays with unusual memory layouts."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

try:
    from mercer.linalg import _native
except ImportError:
    SETS = []
else:
    SETS = _native.supported()


@pytest.fixture(scope="session", params=SETS)
def kernels(request):
    return getattr(_native, request.param)


@pytest.fixture(scope="session")
def all_kernels():
    if not SETS:
        pytest.skip("the compiled kernels are not installed")
    return [getattr(_native, name) for name in SETS]


@pytest.fixture(scope="session", params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    return np.dtype(request.param)


@dataclass(frozen=True)
class Layout:
    """Memory layout of a matrix: bytes before it, unused columns after each row, and the order of the rows."""

    offset_bytes: int = 0
    spare: int = 0
    reverse: bool = False

    def empty(self, n, m, dtype):
        """Return a matrix in this layout, and all the memory around it as bytes."""
        pitch = m + self.spare
        memory = np.full(self.offset_bytes + n * pitch * dtype.itemsize, 0xA5, np.uint8)
        rows = memory[self.offset_bytes :].view(dtype).reshape(n, pitch)[:, :m]
        return rows[::-1] if self.reverse else rows, memory

    def holding(self, values):
        """Return a copy of a matrix in this layout."""
        rows, _ = self.empty(*values.shape, values.dtype)
        rows[...] = values
        return rows


LAYOUTS = st.builds(
    Layout,
    offset_bytes=st.sampled_from([0, 4, 8, 20, 1]),
    spare=st.sampled_from([0, 1, 7, 64]),
    reverse=st.booleans(),
)


@pytest.fixture(scope="session")
def layouts():
    return LAYOUTS


def fill(kernel, layout, shape, dtype):
    """Return a matrix filled by `kernel(out)`; assert that it writes nothing outside of the matrix."""
    out, memory = layout.empty(*shape, dtype)
    out[...] = np.nan
    before = memory.copy()
    kernel(out)
    result = np.array(out)
    out[...] = np.nan
    np.testing.assert_array_equal(memory, before, err_msg="written outside of the output")
    return result


@pytest.fixture(scope="session")
def filled():
    return fill
