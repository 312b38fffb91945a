"""The native program hpcg: the official benchmark's numbers, the same bits for any number of threads, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native_runs
import pytest

from tare.workloads import hpcg

LEVELS = ("base", "v3", "v4")


@pytest.fixture(scope="session")
def start(native_program: Callable[[str], Path]) -> Callable[..., tuple[int, str, str]]:
    program = native_program("hpcg")

    def run(nx: int, ny: int, nz: int, **options: Any) -> tuple[int, str, str]:
        arguments = {"nx": nx, "ny": ny, "nz": nz, "triad-bytes": 1 << 20, **options}
        words = [word for name, value in arguments.items() for word in ("--" + name, str(value))]
        return native_runs.said(program, *words)

    return run


@pytest.fixture(scope="session")
def solve(start: Callable[..., tuple[int, str, str]]) -> Callable[..., dict[str, Any]]:
    def run(nx: int, ny: int, nz: int, **options: Any) -> dict[str, Any]:
        status, out, err = start(nx, ny, nz, **options)
        assert (status, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    return run


def flops(nx: int, ny: int, nz: int) -> int:
    """The benchmark's count for one set of 50 iterations, written down a second time."""
    entries = [(3 * (nx >> i) - 2) * (3 * (ny >> i) - 2) * (3 * (nz >> i) - 2) for i in range(4)]
    vectors = 2 * (3 * 50 + 1) * 2 * nx * ny * nz
    products = (50 + 1) * 2 * entries[0]
    return vectors + products + 50 * (10 * sum(entries[:3]) + 4 * entries[3])


def test_residual_and_operations_of_the_official_benchmark(solve: Callable[..., dict[str, Any]]) -> None:
    found = solve(64, 64, 64)
    # HPCG 3.1, xhpcg --nx=64 --ny=64 --nz=64: "Scaled residual mean=1.13589e-11"; Raw SpMV + MG + DDOT + WAXPBY
    assert found["residuals"] == [pytest.approx(1.13589e-11, rel=5e-6)]
    assert found["flops_per_set"] == pytest.approx(6.99618e8 + 3.89559e9 + 2 * 7.91675e7, rel=2e-6)
    assert found["flops_per_set"] == flops(64, 64, 64)
    assert (found["nonzeros"], found["rows"]) == (190**3, 64**3)


@pytest.mark.parametrize("grid", [(16, 16, 16), (40, 16, 24)])
def test_valid_on_any_grid(solve: Callable[..., dict[str, Any]], grid: tuple[int, int, int]) -> None:
    found = solve(*grid, sets=3, reference=1)
    assert found["flops_per_set"] == flops(*grid)
    assert found["nonzeros"] == (3 * grid[0] - 2) * (3 * grid[1] - 2) * (3 * grid[2] - 2)
    assert len(found["seconds"]) == 3
    assert min(found["seconds"]) > 0
    assert len(set(found["residuals"])) == 1
    assert found["matrix_asymmetry"] <= 1
    assert found["preconditioner_asymmetry"] <= 1
    assert found["preconditioner_difference"] <= 1e-14
    # as the official program reports them: 11 and 1
    assert found["spectral_iterations_plain"] == 11
    assert found["spectral_iterations_preconditioned"] == 1
    assert found["largest_error"] < 1e-13
    assert found["true_residual"] < 1e-14
    assert (found["iterations"], found["iterations_charged"]) == (50, 50)


def test_any_number_of_threads_gives_the_same_bits(solve: Callable[..., dict[str, Any]]) -> None:
    names = ("residuals", "true_residual", "largest_error", "matrix_asymmetry", "preconditioner_asymmetry")
    alone = solve(16, 24, 16, threads=1, pin=0)
    for threads in (2, 3):  # three are more than the two planes of the coarsest grid
        together = solve(16, 24, 16, threads=threads, pin=0)
        assert {name: together[name] for name in names} == {name: alone[name] for name in names}, threads


def test_each_instruction_set_computes_the_same(solve: Callable[..., dict[str, Any]]) -> None:
    best = solve(32, 32, 32)["isa"]
    for isa in LEVELS[: LEVELS.index(best) + 1]:
        found = solve(32, 32, 32, isa=isa)
        assert found["isa"] == isa
        assert found["preconditioner_difference"] <= 1e-14
        assert found["true_residual"] < 1e-14


def test_plain_solver_agrees(solve: Callable[..., dict[str, Any]]) -> None:
    found = solve(48, 48, 48, reference=1)
    assert found["residuals"][0] == pytest.approx(found["reference_residual"], rel=1e-3)


def test_plain_solver_is_run_only_when_asked_for(solve: Callable[..., dict[str, Any]]) -> None:
    assert solve(16, 16, 16)["reference_residual"] is None


@pytest.mark.parametrize("n", [16, 24])
def test_memory_is_what_the_adapter_expects(solve: Callable[..., dict[str, Any]], n: int) -> None:
    assert solve(n, n, n)["working_set_bytes"] == hpcg.working_set(n)


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        ({"nx": 430}, 2, "--nx: 430 cannot be halved three times; use a multiple of 8, e.g. 432"),
        ({"nz": 20}, 2, "--nz: 20 cannot be halved three times; use a multiple of 8, e.g. 24"),
        ({"ny": 8}, 2, "--ny: 8 is out of range; allowed: 16 to 1048576"),
        ({"nx": 1048576, "ny": 1048576}, 2, "more than 2^31 - 1 rows"),
        ({"sets": 0}, 2, "--sets: 0 is out of range"),
        ({"isa": "v9"}, 2, '--isa: "v9" is not allowed'),
        ({"grid": 16}, 2, '"--grid" is no argument'),
        ({"threads": 8192}, 1, "8192 threads are asked for"),
    ],
)
def test_refusals(
    start: Callable[..., tuple[int, str, str]], options: dict[str, Any], status: int, says: str
) -> None:
    found, out, err = start(**{"nx": 16, "ny": 16, "nz": 16, **options})
    assert (found, out) == (status, "")
    assert says in err
