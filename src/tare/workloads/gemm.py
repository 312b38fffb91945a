"""The stack's OpenBLAS by ctypes: random matrices, their product, and whether it is right. Standard library only.

The matrices lie in row order in ``array.array`` objects of the precision asked for.
"""

from __future__ import annotations

import ctypes
import math
import random
from array import array
from typing import Any, List, NamedTuple, Sequence

LIBRARY = "libopenblas.so.0"
_ROW_MAJOR, _NO_TRANSPOSE = 101, 111


class Precision(NamedTuple):
    """One precision: its BLAS names and how a random number of it is made from random bits."""

    name: str
    code: str  # of array.array
    real: Any
    gemm: str
    axpy: str
    dot: str  # accumulates in double
    unit: float  # rounding unit
    mantissa: int  # bits that are random …
    one: int  # … below the bits of 1.0


DOUBLE = Precision(
    *("double", "d", ctypes.c_double, "cblas_dgemm", "cblas_daxpy", "cblas_ddot"),
    *(2.0**-53, (1 << 52) - 1, 0x3FF << 52),
)
SINGLE = Precision(
    *("single", "f", ctypes.c_float, "cblas_sgemm", "cblas_saxpy", "cblas_dsdot"),
    *(2.0**-24, (1 << 23) - 1, 0x7F << 23),
)
PRECISIONS = {precision.name: precision for precision in (DOUBLE, SINGLE)}
#: deviation of the product allowed, in units of what rounding gives (``tolerance``)
LIMIT = 16.0


class GemmError(RuntimeError):
    """OpenBLAS cannot be used here; the message says why and the fix."""


class Blas:
    """OpenBLAS in one precision."""

    def __init__(self, precision: Precision, library: str = LIBRARY) -> None:
        self.precision = precision
        try:
            self._library = ctypes.CDLL(library)
            self._gemm, self._axpy, self._dot = (
                getattr(self._library, name) for name in (precision.gemm, precision.axpy, precision.dot)
            )
            self._threads = self._library.openblas_get_num_threads
        except (OSError, AttributeError) as error:
            raise GemmError(
                "OpenBLAS cannot be used (%s); install the package libopenblas0-pthread" % error
            ) from None
        self._gemm.restype = self._axpy.restype = None
        self._dot.restype = ctypes.c_double

    def threads(self) -> int:
        """Return how many threads the library works with."""
        return int(self._threads())

    def random(self, generator: random.Random, count: int) -> "array[float]":
        """Return ``count`` numbers, uniform in [-½, ½): random bits as the mantissa of 1.…, less 1½."""
        size = array(self.precision.code).itemsize
        repeat = int.from_bytes(b"\x01".ljust(size, b"\0") * count, "little")
        bits = generator.getrandbits(8 * size * count) & repeat * self.precision.mantissa
        values: "array[float]" = array(self.precision.code)
        values.frombytes((bits | repeat * self.precision.one).to_bytes(size * count, "little"))
        shift, one = array(self.precision.code, [1.0]), self.precision.real(-1.5)
        self._axpy(count, one, self._pointer(shift), 0, self._pointer(values), 1)
        return values

    def multiply(self, n: int, a: "array[float]", b: "array[float]", c: "array[float]") -> None:
        """Set c = a b, matrices of order ``n``."""
        one, zero = self.precision.real(1), self.precision.real(0)
        pointers = [self._pointer(matrix) for matrix in (a, b, c)]
        self._gemm(
            *(_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, n, n, n),
            *(one, pointers[0], n, pointers[1], n, zero, pointers[2], n),
        )

    def times(self, matrix: "array[float]", vector: "array[float]") -> List[float]:
        """Return matrix × vector, by one scalar product a row, summed in double precision: no part of GEMM is used."""
        n = len(vector)
        base, other = matrix.buffer_info()[0], self._pointer(vector)
        step = n * matrix.itemsize
        return [self._dot(n, ctypes.c_void_p(base + row * step), 1, other, 1) for row in range(n)]

    def _pointer(self, values: "array[float]") -> ctypes.c_void_p:
        return ctypes.c_void_p(values.buffer_info()[0])


def deviation(
    blas: Blas, generator: random.Random, a: "array[float]", b: "array[float]", c: "array[float]"
) -> float:
    """Return the largest element of |c r - a (b r)| for a random vector r of ±1, over ``tolerance`` ÷ LIMIT.

    Freivalds' check (R. Freivalds, 1977): a wrong c passes for at most half of all r, and this one is drawn after c was
    made. NaN when an element is no number.
    """
    code, n = blas.precision.code, math.isqrt(len(c))
    signs = array(code, [generator.choice((-1.0, 1.0)) for _ in range(n)])
    wanted = blas.times(a, array(code, blas.times(b, signs)))
    return scaled_difference(blas.times(c, signs), wanted, n, blas.precision)


def scaled_difference(found: Sequence[float], wanted: Sequence[float], n: int, precision: Precision) -> float:
    """Return the largest difference in units of rounding; NaN when one is no number."""
    differences = [abs(one - other) for one, other in zip(found, wanted)]
    if not all(map(math.isfinite, differences)):
        return math.nan
    return max(differences) / (tolerance(n, precision) / LIMIT)


def tolerance(n: int, precision: Precision) -> float:
    """Return the difference that is accepted.

    Entries uniform in [-½, ½) have variance 1/12, so c r has elements of about n/12. Rounding errors of a sum of n
    terms add up like √n (N. J. Higham and T. Mary, SIAM J. Sci. Comput. 41, 2019): u √n · n/12, times ``LIMIT``.
    """
    return LIMIT * precision.unit * math.sqrt(n) * n / 12.0
