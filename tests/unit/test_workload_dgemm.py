"""dgemm: the check finds wrong products and accepts rounding; sizes, threads, refusals."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable
from pathlib import Path

import native_runs
import pytest

from tare.workloads import dgemm, gemm
from tare.workloads.registry import WORKLOADS

PRECISIONS = pytest.mark.parametrize("name", ["double", "single"])
N = 96
GIB = 1 << 30


@pytest.fixture
def blas(require: Callable[[str], None]) -> Callable[[str], gemm.Blas]:
    require("hpc_host")
    return lambda name: gemm.Blas(gemm.PRECISIONS[name])


@PRECISIONS
def test_random_matrices_are_repeatable_and_uniform(blas: Callable[[str], gemm.Blas], name: str) -> None:
    one, other = (blas(name).random(random.Random(7), 40_000) for _ in range(2))
    assert one == other
    assert one.typecode == gemm.PRECISIONS[name].code
    assert min(one) >= -0.5
    assert max(one) < 0.5
    assert sum(one) / len(one) == pytest.approx(0, abs=0.01)
    assert sum(value**2 for value in one) / len(one) == pytest.approx(1 / 12, rel=0.02)
    assert len(set(one)) > 39_000
    assert blas(name).random(random.Random(8), 40_000) != one


@PRECISIONS
def test_the_product_is_the_product(blas: Callable[[str], gemm.Blas], name: str) -> None:
    """Against sums in Python's own arithmetic."""
    used = blas(name)
    a, b = (used.random(random.Random(seed), 9) for seed in (1, 2))
    c = array(used.precision.code, [9.0] * 9)
    used.multiply(3, a, b, c)
    expected = [sum(a[3 * i + k] * b[3 * k + j] for k in range(3)) for i in range(3) for j in range(3)]
    assert list(c) == pytest.approx(expected, rel=8 * used.precision.unit, abs=8 * used.precision.unit)
    assert used.times(c, array(used.precision.code, [1.0, 0.0, -1.0])) == pytest.approx(
        [c[3 * i] - c[3 * i + 2] for i in range(3)], abs=4 * used.precision.unit
    )


@PRECISIONS
def test_a_right_product_is_within_rounding_and_a_wrong_one_is_not(
    blas: Callable[[str], gemm.Blas], name: str
) -> None:
    used, generator = blas(name), random.Random(3)
    a, b = (used.random(generator, N * N) for _ in range(2))
    c = array(used.precision.code, [0.0]) * (N * N)
    used.multiply(N, a, b, c)
    assert 0 < used_deviation(used, a, b, c) < 4
    wrong = array(c.typecode, c)
    wrong[5 * N + 7] *= 1 + 1e6 * used.precision.unit
    assert used_deviation(used, a, b, wrong) > gemm.LIMIT, "one element, off by a millionfold rounding unit"
    wrong = array(c.typecode, c)
    wrong[0], wrong[1] = c[1], c[0]
    assert max(used_deviation(used, a, b, wrong, seed) for seed in range(20)) > gemm.LIMIT
    wrong[3] = math.nan
    assert math.isnan(used_deviation(used, a, b, wrong))
    used.multiply(N, b, a, wrong)
    assert used_deviation(used, a, b, wrong) > 1e3, "b a instead of a b"


def used_deviation(
    used: gemm.Blas, a: array[float], b: array[float], c: array[float], seed: int = 5
) -> float:
    return gemm.deviation(used, random.Random(seed), a, b, c)


def test_the_difference_in_units_of_rounding() -> None:
    unit = gemm.tolerance(100, gemm.DOUBLE) / gemm.LIMIT
    assert unit == 2.0**-53 * 10 * 100 / 12
    assert gemm.scaled_difference([1.0, 2.0], [1.0, 2.0 + 3 * unit], 100, gemm.DOUBLE) == pytest.approx(
        3, rel=0.1
    )
    assert math.isnan(gemm.scaled_difference([math.inf], [math.inf], 100, gemm.DOUBLE))


def test_absent_library_names_the_package() -> None:
    with pytest.raises(gemm.GemmError, match=r"install the package libopenblas0-pthread"):
        gemm.Blas(gemm.DOUBLE, "libnotthere.so.0")


def test_order_of_the_matrices() -> None:
    assert dgemm.order("quick", 8 * GIB, 8) == 2400
    assert dgemm.order(16, 8 * GIB, 8) == 16
    assert dgemm.order(11_000, 8 * GIB, 8) == 11_000
    for level, memory in ((15, GIB), (12_000, 8 * GIB), ("quick", GIB // 4)):
        with pytest.raises(dgemm.SizeError, match=r"n: matrices of order \d+ .* 16 … \d+ is possible"):
            dgemm.order(level, memory, 8)


def finished(tmp_path: Path, **factors: int | str) -> dgemm.Dgemm:
    made = dgemm.set_up(native_runs.request(tmp_path, "dgemm", {"n": 64, "precision": "double", **factors}))
    assert list(made.steps(0)) == [None] * dgemm.REPETITIONS
    return made


@pytest.mark.needs("hpc_host")
def test_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm.Blas, "threads", lambda _: 2)
    monkeypatch.setattr(dgemm, "effective_cpus", lambda: 2)
    made = finished(tmp_path, precision="single")
    check = made.check()
    assert check.reasons == []
    assert check.facts["work"] == {"n": 64, "precision": "single", "threads": 2, "repetitions": 8}
    made.seconds = [0.5, 0.25]
    metric = WORKLOADS["dgemm"].metrics[0]
    assert [(s["metric"], s["unit"], s["phase"], s["value"]) for s in made.samples()] == [
        (metric.name, metric.unit, metric.phase, 2 * 64**3 / seconds) for seconds in (0.5, 0.25)
    ]
    assert {"config", "corename"} == set(made.software()["openblas"])


@pytest.mark.needs("hpc_host")
def test_what_makes_a_run_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm.Blas, "threads", lambda _: 1)
    monkeypatch.setattr(dgemm, "effective_cpus", lambda: 1)
    made = finished(tmp_path)
    made.c[0] += 1
    reasons = made.check().reasons
    assert len(reasons) == 3
    assert reasons[0].startswith("threads: 2 asked for, 1 effective CPUs")
    assert reasons[1].startswith("threads: OpenBLAS works with 1, 2 were asked for")
    assert reasons[2].startswith("gemm: the product differs from a (b r) by")
