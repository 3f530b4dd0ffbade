"""Bessel functions and inverse error functions: short Chebyshev series, which are computed from integrals when they are first asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.frontend.block import Block, Operand
from eas.frontend.hints import checked
from eas.frontend.lang.math import abs, cos, exp, isinf, log, maximum, minimum, sin, sqrt, where
from eas.frontend.values import as_block, cast_to, constant, is_number, plain
from eas.ops.rules import FLOATS, need_dtype

_NODES, _MOST = 64, 40
_BORDER = 8.0  # below: a series in x * x or x, above: one in 1 / x
Curve = Callable[[float], float]


def _in_f32(name: str, x: Operand, function: Callable[[Any], Any]) -> Block:
    """A function of x in f32 (f64 of f64), in the dtype of x again."""
    block = constant(float(plain(x)), dtypes.f32) if is_number(x) else as_block(x, f"the operand of mk.{name}")
    checked(need_dtype, name, block.type, FLOATS)
    wide = cast_to(block, dtypes.f64 if block.dtype is dtypes.f64 else dtypes.f32)
    return cast_to(function(wide), block.dtype)


# --- series -----------------------------------------------------------------------------------


@cache
def _coefficients(curve: Curve, lo: float, hi: float, dtype: DType) -> tuple[float, ...]:
    """Of the Chebyshev series of a smooth function, as many as the type can tell."""
    angles = np.pi * (np.arange(_NODES) + 0.5) / _NODES
    values = np.array([curve(float(v)) for v in (lo + hi) / 2 + (hi - lo) / 2 * np.cos(angles)])
    found = np.array([2 / _NODES * np.sum(values * np.cos(k * angles)) for k in range(_MOST)])
    found[0] /= 2
    least = float(np.abs(found).max()) * (4e-17 if dtype is dtypes.f64 else 4e-9)
    small = np.abs(found) < least
    count = next((k for k in range(1, _MOST - 2) if small[k : k + 3].all()), _MOST)
    return tuple(float(c) for c in found[:count])


def _series(curve: Curve, lo: float, hi: float, x: Any) -> Any:
    """A smooth function at x, by Clenshaw's recurrence."""
    first, *rest = _coefficients(curve, lo, hi, x.dtype)
    t = (x - (lo + hi) / 2) * (2 / (hi - lo))
    twice, ahead, further = t + t, t * 0.0, t * 0.0
    for c in reversed(rest):
        ahead, further = twice * ahead - further + c, ahead
    return t * ahead - further + first


# --- what the series are of -------------------------------------------------------------------

_TURN = (np.arange(128) + 0.5) * np.pi / 128


def _j(order: int, x: float) -> float:
    """Bessel's integral: of a periodic function the midpoint rule is as good as exact."""
    return float(np.mean(np.cos(order * _TURN - x * np.sin(_TURN))))


def _j0(square: float) -> float:
    return _j(0, math.sqrt(square))


def _j1(square: float) -> float:
    """J1(x) / x."""
    return _j(1, math.sqrt(square)) / math.sqrt(square)


def _y0(square: float) -> float:
    """Y0 without its logarithm, by Neumann's series."""
    x = math.sqrt(square)
    rest = sum((-1) ** k * _j(2 * k, x) / k for k in range(1, 30))
    return float(2 / math.pi * ((np.euler_gamma - math.log(2)) * _j(0, x) - 2 * rest))


def _y1(square: float) -> float:
    """Y1 without its logarithm and its pole, divided by x."""
    x = math.sqrt(square)
    rest = sum((-1) ** k * (2 * k + 1) / (k * (k + 1)) * _j(2 * k + 1, x) for k in range(1, 30))
    return float(2 / math.pi * ((np.euler_gamma - 1 - math.log(2)) * _j(1, x) - rest + (1 - _j(0, x)) / x) / x)


def _wave(order: int, square: float) -> complex:
    """Hankel's function at 1 / sqrt(square), by its first asymptotic term: a Gaussian under the trapezoid rule."""
    s = np.arange(-80, 81) * 0.1
    parts = np.exp(-s * s) * np.abs(s) ** (2 * order) * (1 + 0.5j * s * s * math.sqrt(square)) ** (order - 0.5)
    return complex(0.1 / math.gamma(order + 0.5) * np.sum(parts))


@cache
def _in_phase(order: int) -> Curve:
    return lambda square: _wave(order, square).real


@cache
def _out_of_phase(order: int) -> Curve:
    return lambda square: _wave(order, square).imag / math.sqrt(square)


def _i(order: int, x: float) -> float:
    """exp(-x) times the modified Bessel function."""
    turn = (np.arange(count := 64 + int(20 * math.sqrt(x))) + 0.5) * np.pi / count
    return float(np.mean(np.exp(x * (np.cos(turn) - 1)) * np.cos(order * turn)))


@cache
def _i_near(order: int) -> Curve:
    return lambda x: _i(order, x) / x**order


@cache
def _i_far(order: int) -> Curve:
    """By sqrt(x), at 1 / inverse."""
    return lambda inverse: _i(order, 1 / inverse) / math.sqrt(inverse)


def _erfinv_near(square: float) -> float:
    """erfinv(x) / x."""
    x = math.sqrt(square)
    z = x * 0.886
    for _ in range(20):
        step = (math.erf(z) - x) / (2 / math.sqrt(math.pi) * math.exp(-z * z))
        z -= step / (1 + z * step)
    return z / x


def _erfcinv_far(root: float) -> float:
    """erfcinv(exp(-root * root)) / root, by Newton's method on the logarithm of erfc."""
    z = root
    for _ in range(30):
        tail = z
        for k in range(400, 0, -1):  # erfc(z) is exp(-z * z) / sqrt(pi) over this continued fraction
            tail = z + k / 2 / tail
        z -= (z * z + math.log(tail * math.sqrt(math.pi)) - root * root) / (2 * tail)
    return z / root


# --- the functions ----------------------------------------------------------------------------


def _waves(order: int, size: Any) -> tuple[Any, Any]:
    """J and Y of a size above the border, by its sine and cosine."""
    inverse = 1.0 / maximum(size, _BORDER)
    square = inverse * inverse
    p = _series(_in_phase(order), 0.0, 1 / _BORDER**2, square)
    q = _series(_out_of_phase(order), 0.0, 1 / _BORDER**2, square) * inverse
    s, c = sin(size), cos(size)
    across, along = (s + c, s - c) if order == 0 else (s - c, -(s + c))
    height = sqrt(inverse) * (1 / math.sqrt(math.pi))
    ends = isinf(size)
    return where(ends, 0.0, height * (p * across - q * along)), where(ends, 0.0, height * (p * along + q * across))


def _near(size: Any) -> tuple[Any, Any]:
    """A size within the border, and its square."""
    inside = minimum(size, _BORDER)
    return inside, inside * inside


def bessel_j0(x: Operand) -> Block:
    """The Bessel function of the first kind of order 0; within 2e-6 in f32 and 1e-13 in f64, relative to values above 1."""

    def function(x: Any) -> Any:
        size = abs(x)
        return where(size < _BORDER, _series(_j0, 0.0, _BORDER**2, _near(size)[1]), _waves(0, size)[0])

    return _in_f32("bessel_j0", x, function)


def bessel_j1(x: Operand) -> Block:
    """The Bessel function of the first kind of order 1; as exact as `bessel_j0`."""

    def function(x: Any) -> Any:
        size = abs(x)
        inside, square = _near(size)
        found = where(size < _BORDER, inside * _series(_j1, 0.0, _BORDER**2, square), _waves(1, size)[0])
        return where(x < 0, -found, found)

    return _in_f32("bessel_j1", x, function)


def bessel_y0(x: Operand) -> Block:
    """The Bessel function of the second kind of order 0: -inf of 0, NaN of negative numbers; as exact as `bessel_j0`."""

    def function(x: Any) -> Any:
        inside, square = _near(x)
        near = _series(_y0, 0.0, _BORDER**2, square) + log(inside) * (2 / math.pi) * _series(_j0, 0.0, _BORDER**2, square)
        return where(x < _BORDER, near, _waves(0, x)[1])

    return _in_f32("bessel_y0", x, function)


def bessel_y1(x: Operand) -> Block:
    """The Bessel function of the second kind of order 1: -inf of 0, NaN of negative numbers; as exact as `bessel_j0`."""

    def function(x: Any) -> Any:
        inside, square = _near(x)
        waves = inside * (_series(_y1, 0.0, _BORDER**2, square) + log(inside) * (2 / math.pi) * _series(_j1, 0.0, _BORDER**2, square))
        near = where(x == 0, -math.inf, waves - (2 / math.pi) / inside)
        return where(x < _BORDER, near, _waves(1, x)[1])

    return _in_f32("bessel_y1", x, function)


def bessel_i0(x: Operand) -> Block:
    """The modified Bessel function of the first kind of order 0, within 16 ulp in f32, 512 in f64."""
    return _in_f32("bessel_i0", x, lambda x: _modified(0, abs(x)))


def bessel_i1(x: Operand) -> Block:
    """The modified Bessel function of the first kind of order 1, within 16 ulp in f32, 512 in f64."""

    def function(x: Any) -> Any:
        found = _modified(1, abs(x))
        return where(x < 0, -found, found)

    return _in_f32("bessel_i1", x, function)


def _modified(order: int, size: Any) -> Any:
    inside = minimum(size, _BORDER)
    near = _series(_i_near(order), 0.0, _BORDER, inside) * (inside if order else 1.0)
    inverse = 1.0 / maximum(size, _BORDER)
    far = _series(_i_far(order), 0.0, 1 / _BORDER, inverse) * sqrt(inverse)
    half = exp(size * 0.5)  # twice, as the whole may overflow where the product does not
    return where(isinf(size), size, where(size < _BORDER, near, far) * half * half)


_FAR = (10.3, 27.3)  # sqrt(-log(y)) of the least y of f32, and of f64


def _inverse_of_error(y: Any, x: Any) -> Any:
    """The z with erfc(z) = y = 1 - x, both of which are given as exactly as they are known."""
    central = x * _series(_erfinv_near, 0.0, 0.5625, minimum(x * x, 0.5625))
    rest = minimum(y, 2.0 - y)
    root = sqrt(-log(minimum(rest, 0.25)))
    far = root * _series(_erfcinv_far, 1.17, _FAR[0], minimum(root, _FAR[0]))
    if x.dtype is dtypes.f64:
        far = where(root > _FAR[0], root * _series(_erfcinv_far, *_FAR, maximum(root, _FAR[0])), far)
    far = where(rest == 0, math.inf, far)
    far = where(y > 1, -far, far)
    return where(abs(x) <= 0.75, central, where((y < 0) | (y > 2), math.nan, far))


def erfinv(x: Operand) -> Block:
    """The inverse of erf, within 16 ulp in f32 and 256 in f64; +-inf of +-1, NaN beyond."""

    def function(x: Any) -> Any:
        found = _inverse_of_error(1.0 - abs(x), abs(x))
        return where(x < 0, -found, found)

    return _in_f32("erfinv", x, function)


def erfcinv(y: Operand) -> Block:
    """The inverse of erfc, within 16 ulp in f32 and 256 in f64; inf of 0, -inf of 2, NaN beyond."""
    return _in_f32("erfcinv", y, lambda y: _inverse_of_error(y, 1.0 - y))


def normcdfinv(p: Operand) -> Block:
    """The inverse of the distribution function of the standard normal distribution, as exact as `erfcinv`."""
    return _in_f32("normcdfinv", p, lambda p: _inverse_of_error(2.0 * p, 1.0 - 2.0 * p) * -math.sqrt(2.0))
