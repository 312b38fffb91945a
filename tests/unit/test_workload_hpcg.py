"""hpcg: which problem is chosen, what makes a result invalid (case 37 as the whole kind), and what is recorded."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from adapter_requests import adapter_request
from tare.parity_fields import REQUIRED, flatten, rule_of
from tare.worker.request import Request
from tare.workloads import hpcg
from tare.workloads.hpcg import HpcgError, Problem
from tare.workloads.registry import WORKLOADS

MIB = 1 << 20
GB = 10**9
CACHE = 32 * MIB


def found(**changed: Any) -> dict[str, Any]:
    """A program's output as it was on two cores with 32 MiB of cache, n = 72."""
    return {
        **{"isa": "v4", "threads": 2, "nx": 72, "ny": 72, "nz": 72, "rows": 373248, "nonzeros": 9800344},
        **{"working_set_bytes": 162330372, "iterations": 50, "iterations_charged": 50},
        **{"flops_per_set": 6794185880.0, "bytes_per_set": 41176258632.0, "triad_bytes_per_second": 80e9},
        **{"seconds": [0.8, 0.75], "residuals": [7.668193973305656e-11] * 2},
        **{"matrix_asymmetry": 0.005, "preconditioner_asymmetry": 0.016, "preconditioner_difference": 9e-16},
        **{"spectral_iterations_plain": 11, "spectral_iterations_preconditioned": 1},
        **{"reference_residual": None, "true_residual": 7.66819354983747e-11, "largest_error": 2.2e-9},
        **changed,
    }


def reasons(**changed: Any) -> list[str]:
    return hpcg.output_reasons(found(**changed), Problem(72, 2, 0), threads=2, cache_bytes=CACHE)


def request(folder: Path, **changed: Any) -> Request:
    return adapter_request("hpcg", folder, **{"memory_bytes": 16 * GB, **changed})


@pytest.fixture
def program(tmp_path: Path) -> None:
    """A stand-in for the program: says what it was called with, prints a result."""
    path = tmp_path / hpcg.PROGRAM
    path.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        "open('arguments', 'w').write(' '.join(sys.argv[1:]))\n"
        f"print({json.dumps(json.dumps(found(threads=1)))})\n"
    )
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("level", "memory", "cache", "expected"),
    [
        ("quick", 16 * GB, 32 * MIB, Problem(72, 2, 0)),  # 64³ has 114 MB, 128 MiB are needed
        ("quick", 16 * GB, 8 * MIB, Problem(48, 2, 0)),
        ("quick", 16 * GB, 1 << 10, Problem(16, 2, 0)),
        ("quick", 64 * GB, 512 * MIB, Problem(176, 2, 0)),
        ("full", 16 * GB, 32 * MIB, Problem(216, 2, 1)),
        (72, 16 * GB, 32 * MIB, Problem(72, 2, 0)),
        (104, 16 * GB, 32 * MIB, Problem(104, 2, 0)),
    ],
)
def test_chosen_problem(level: str | int, memory: int, cache: int, expected: Problem) -> None:
    chosen = hpcg.problem(level, memory, cache)
    assert chosen == expected
    assert chosen.n % 8 == 0
    assert hpcg.working_set(chosen.n) >= 4 * cache
    if level == "quick" and chosen.n > 16:
        assert hpcg.working_set(chosen.n - 8) < 4 * cache
    if level == "full":
        assert hpcg.working_set(chosen.n) >= memory / 4 > hpcg.working_set(chosen.n - 8)


@pytest.mark.parametrize(
    ("level", "memory", "says"),
    [
        (430, 64 * GB, "n: 430 is not allowed: .* multiple of 8, at least 16, e.g. 432"),
        (8, 16 * GB, "n: 8 is not allowed: .* e.g. 16"),
        (1, 16 * GB, "n: 1 is not allowed: .* e.g. 16"),
        (64, 16 * GB, "n: 64 has a working set of 114016256 bytes, .*use n=72 or more"),
        (512, 16 * GB, "n: 512 needs .* bytes; 80 % of the 16000000000 bytes .* use a smaller n"),
        (1296, 10**13, "2\\^31 - 1 rows are the limit"),
        ("quick", 100 * MIB, "n: 72 needs .* give the run more memory"),
        ("full", 100 * MIB, "n: 72 needs .* give the run more memory"),
    ],
)
def test_refused_problems(level: str | int, memory: int, says: str) -> None:
    with pytest.raises(HpcgError, match=says):
        hpcg.problem(level, memory, CACHE)


def test_a_valid_result_has_no_reason() -> None:
    assert reasons() == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"nx": 64}, "nx=64 was run, 72 was asked for"),
        ({"nz": 80}, "nz=80 was run, 72 was asked for"),
        ({"threads": 1}, "threads=1 was run, 2 was asked for"),
        ({"iterations": 49}, "iterations=49 was run, 50 was asked for"),
        ({"seconds": [0.8]}, "2 sets were asked for"),
        ({"seconds": [0.8, 0.0]}, "2 sets were asked for"),
        ({"working_set_bytes": 134217727}, "below 4 × the last-level cache (33554432 bytes)"),
        ({"triad_bytes_per_second": 27e9}, "2.03 times that of STREAM's triad"),
        ({"matrix_asymmetry": 1.5}, "symmetry of the matrix is 1.5, at most 1 is valid"),
        ({"matrix_asymmetry": None}, "symmetry of the matrix is None"),
        ({"preconditioner_asymmetry": 2.0}, "symmetry of the preconditioner is 2.0"),
        ({"preconditioner_difference": 2e-12}, "plain preconditioner is 2e-12, at most 1e-12"),
        ({"spectral_iterations_plain": 13}, "without preconditioner is 13, at most 12"),
        ({"spectral_iterations_preconditioned": 3}, "with preconditioner is 3, at most 2"),
        ({"residuals": [7.6e-11, 7.7e-11]}, "must agree bit by bit"),
        ({"residuals": [None] * 2}, "no finite number"),
        ({"true_residual": None}, "no finite number"),
        ({"residuals": [0.2] * 2, "true_residual": 0.2}, "fell to 0.2 only"),
        ({"true_residual": 1e-9}, "the recurrence says 7.66819e-11"),
    ],
)
def test_invalid_results(changed: dict[str, Any], says: str) -> None:
    found_reasons = reasons(**changed)
    assert len(found_reasons) == 1
    assert says in found_reasons[0]


@pytest.mark.usefixtures("program")
def test_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpcg, "last_level_bytes", lambda: CACHE)
    task = hpcg.set_up(request(tmp_path))
    assert (task.timed, task.epochs) == (False, 1)
    assert list(task.steps(0)) == [None]
    assert (tmp_path / "arguments").read_text() == (
        "--nx 72 --ny 72 --nz 72 --sets 2 --threads 1 --reference 0 --triad-bytes 134217728"
    )
    assert [(s["metric"], s["phase"], s["index"], s["unit"]) for s in task.samples()] == [
        ("hpcg_flops", "steady", index, "flop/s") for index in range(2)
    ]
    assert [s["value"] for s in task.samples()] == [6794185880.0 / 0.8, 6794185880.0 / 0.75]
    check = task.check()
    assert check.reasons == []
    assert check.facts["stream_share"] == pytest.approx(41176258632.0 / 0.75 / 80e9)
    assert check.facts["label"] == "quick, not official"
    software = task.software()
    assert (software["program"], software["isa"], len(software["sha256"])) == ("hpcg", "v4", 64)


@pytest.mark.usefixtures("program")
def test_the_work_done_must_be_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpcg, "last_level_bytes", lambda: CACHE)
    task = hpcg.set_up(request(tmp_path))
    list(task.steps(0))
    fields = flatten({"check": task.check().facts})
    required = {field for field in fields if rule_of(field).kind == REQUIRED}
    names = ("nx", "ny", "nz", "threads", "iterations", "iterations_charged", "nonzeros", "working_set_bytes")
    assert required == {f"check.work.{name}" for name in (*names, "sets", "residual_hex")}
    assert fields["check.work.residual_hex"] == (7.668193973305656e-11).hex()


def test_more_iterations_than_the_plain_solver_are_charged() -> None:
    # the operations are those of 50 iterations, the time is that of all
    charged = found(iterations_charged=55, seconds=[1.0])
    assert hpcg.rates(charged) == [6794185880.0]


def test_full_runs_beside_the_plain_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpcg, "last_level_bytes", lambda: CACHE)
    task = hpcg.set_up(request(tmp_path, factors={"n": "full"}))
    assert task.arguments() == {
        **{"nx": 216, "ny": 216, "nz": 216, "sets": 2, "threads": 1, "reference": 1},
        **{"triad-bytes": 134217728},
    }


def test_more_threads_than_effective_cpus_are_refused(tmp_path: Path) -> None:
    cpus = len(os.sched_getaffinity(0))
    with pytest.raises(HpcgError, match=f"threads: {cpus + 1} is more than the .* effective CPUs"):
        hpcg.set_up(request(tmp_path, threads=cpus + 1))


def test_declaration() -> None:
    workload = WORKLOADS["hpcg"]
    assert workload.native == hpcg.PROGRAM
    assert [(m.name, m.unit, m.phase, m.cost) for m in workload.metrics] == [
        ("hpcg_flops", "flop/s", "steady", False)
    ]
    assert workload.factors["n"].default == "quick"
