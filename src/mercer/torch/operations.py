"""The operations of exported models as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["OPERATIONS"]


def safe_sqrt(x: Tensor) -> Tensor:
    """Return the square root, with the derivative zero at zero, as distances of equal rows have it."""
    positive = x > 0
    return torch.where(positive, torch.sqrt(torch.where(positive, x, torch.ones_like(x))), torch.zeros_like(x))


def reduced_sum(x: Tensor, axis: int, keepdims: bool) -> Tensor:
    """Return sums along an axis."""
    return x.sum(dim=axis, keepdim=keepdims)


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Return the squared distances of all pairs of rows, from differences, which do not cancel."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square()


def terms(x: Tensor, y: Tensor, name: str) -> Tensor:
    """Return what one feature contributes to a sum or a product over features."""
    if name == "squared_differences":
        return (x - y).square()
    if name == "city_block_distances":
        return (x - y).abs()
    if name == "cauchy_products":
        return 1 / (1 + (x - y).square())
    smaller = torch.minimum(x, y)
    if name in ("sums_of_minima", "products_of_minima"):
        return smaller
    tiny = torch.finfo(x.dtype).tiny
    ratio = smaller / torch.maximum(x, y).clamp(min=tiny)
    if name == "chi2_sums":
        return 2 * smaller / (1 + ratio)
    ratio = ratio.clamp(min=tiny)
    log = torch.log1p(ratio)
    return smaller * ((0.5 / 0.6931471805599453) * (log / ratio + log - torch.log(ratio)))


def coordinate_kernel(x: Tensor, y: Tensor, name: str) -> Tensor:
    """Return a sum or a product over features."""
    is_product = name in ("cauchy_products", "products_of_minima")
    out: Tensor | None = None
    for i in range(x.shape[-1]):
        term = terms(x[..., :, None, i], y[..., None, :, i], name)
        out = term if out is None else (out * term if is_product else out + term)
    assert out is not None
    return out


def hadamard(x: Tensor) -> Tensor:
    """Return the rows times the Hadamard matrix in Sylvester's order, without normalization."""
    shape, half = x.shape, 1
    while half < shape[-1]:
        pairs = x.reshape(*shape[:-1], shape[-1] // (2 * half), 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        x = torch.stack([first + second, first - second], dim=-2).reshape(shape)
        half *= 2
    return x


def butterfly(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Return rows after the rotations of butterfly matrices."""
    indices = torch.arange(x.shape[-1], device=x.device)
    for level in range(len(cosines)):
        x = x * cosines[level] + x[..., indices ^ (1 << level)] * sines[level]
    return x


def convolve(x: Tensor, y: Tensor) -> Tensor:
    """Return the circular convolutions of rows."""
    return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(y), n=x.shape[-1])


def nearest_integer(x: Tensor) -> Tensor:
    """Return the nearest integers, with the gradient of numbers that are not rounded: that of integers is zero."""
    return x + (torch.round(x) - x).detach()


def interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Return a piecewise linear function, constant beyond the knots."""
    if len(knots) == 1:
        return values.expand_as(x)
    clipped = torch.minimum(torch.maximum(x, knots[0]), knots[-1])
    index = (torch.searchsorted(knots, clipped.contiguous(), right=True) - 1).clamp(0, len(knots) - 2)
    slopes = (values[1:] - values[:-1]) / (knots[1:] - knots[:-1])
    return values[index] + slopes[index] * (clipped - knots[index])


def piecewise_polynomial(x: Tensor, coefficients: Tensor, lowest: int) -> Tensor:
    """Return a function that is a polynomial on each of the intervals between powers of two."""
    x = x.clamp(2.0**lowest, 2.0 ** (lowest + len(coefficients)) * (1 - 1e-15))
    level = torch.floor(torch.log2(x.detach()))
    t = x * torch.exp2(1 - level) - 3
    index = (level - lowest).to(torch.int64).clamp(0, len(coefficients) - 1)
    out = coefficients[index, -1]
    for power in range(coefficients.shape[1] - 2, -1, -1):
        out = out * t + coefficients[index, power]
    return out


def nearest(x: Tensor, count: int) -> Tensor:
    """Return the indices of the least entries of each row."""
    return torch.topk(x, count, dim=-1, largest=False, sorted=False).indices


def cholesky_inverse(x: Tensor) -> Tensor:
    """Return the inverse of the lower Cholesky factor of a matrix."""
    factor = torch.linalg.cholesky(x)
    eye = torch.eye(len(x), dtype=x.dtype, device=x.device)
    return torch.linalg.solve_triangular(factor, eye, upper=False)


def repeat_rows(x: Tensor, like: Tensor) -> Tensor:
    """Return a tensor once for each row of another one."""
    return x.expand(like.shape[0], *x.shape)


def pad(x: Tensor, width: int) -> Tensor:
    """Return rows with zeros appended."""
    return torch.nn.functional.pad(x, (0, width - x.shape[-1]))


def concatenate(*parts: Tensor) -> Tensor:
    """Return tensors side by side."""
    return torch.cat(parts, dim=-1)


def take(x: Tensor, indices: Tensor) -> Tensor:
    """Return some entries along the last axis."""
    return x[..., indices]


#: Functions of the tensors of the inputs, with the options as keyword arguments.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "matmul": torch.matmul,
    "negative": torch.neg,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": safe_sqrt,
    "cos": torch.cos,
    "sin": torch.sin,
    "arctan": torch.arctan,
    "abs": torch.abs,
    "sign": torch.sign,
    "square": torch.square,
    "floor": torch.floor,
    "round": nearest_integer,
    "sigmoid": torch.sigmoid,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "greater_equal": torch.ge,
    "greater": torch.gt,
    "where": torch.where,
    "sum": reduced_sum,
    "reshape": lambda x, tail: x.reshape(-1, *tail),
    "transpose": lambda x: x.transpose(-1, -2),
    "concatenate": concatenate,
    "columns": lambda x, start, stop: x[..., start:stop],
    "take": take,
    "take_rows": lambda x, indices: x[indices],
    "repeat_rows": repeat_rows,
    "pad": pad,
    "squared_distances": squared_distances,
    "coordinate_kernel": coordinate_kernel,
    "hadamard": hadamard,
    "butterfly": butterfly,
    "convolve": convolve,
    "interpolate": interpolate,
    "piecewise_polynomial": piecewise_polynomial,
    "nearest": nearest,
    "solve": torch.linalg.solve,
    "softmax": lambda x: torch.softmax(x, dim=-1),
    "argmax": lambda x: torch.argmax(x, dim=-1),
    "cholesky_inverse": cholesky_inverse,
}
