"""syscall: the program, its numbers, and what makes them none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native_runs
import pytest

from tare.workloads import syscall
from tare.workloads.native import NativeError
from tare.workloads.registry import WORKLOADS

NAMES = [
    "getpid",
    "read",
    "write",
    "map_fault_unmap",
    "futex_same_cpu",
    "futex_two_cpus",
    "pipe_same_cpu",
    "pipe_two_cpus",
    "fork_exec",
    "clock_vdso",
    "clock_call",
]


def result(**changed: Any) -> dict[str, Any]:
    """A result of two batches: 100 ns an operation, 20 ns for the vDSO, 0.25 ns for the loop; ``changed`` by name."""
    seconds = {name: [1e-7, 3e-7] for name in NAMES} | {"loop": [2e-10, 3e-10], "clock_vdso": [2e-8, 2e-8]}
    operations = {name: {"size": 20000, "seconds": values} for name, values in seconds.items()}
    for name, value in changed.items():
        operations[name] = {**operations[name], **value} if value else operations[name]
        if not value:
            del operations[name]
    return {"cpus": [0, 1], "tick_ns": 20, "operations": operations}


def test_metrics_are_seconds_that_cost() -> None:
    metrics = WORKLOADS["syscall"].metrics
    assert [metric.name for metric in metrics] == [f"{name}_seconds" for name in NAMES]
    assert {(metric.phase, metric.unit, metric.cost) for metric in metrics} == {("steady", "s", True)}
    assert [metric.name for metric in metrics if metric.optional] == [
        "futex_two_cpus_seconds",
        "pipe_two_cpus_seconds",
    ]


def test_a_good_result_has_no_reasons() -> None:
    assert syscall.reasons(result(), 2) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_must_be_there_and_valid(name: str) -> None:
    assert syscall.reasons(result(**{name: None}), 2) == [
        f"{name}: the program did not time it; use the program of this Tare"
    ]
    assert syscall.reasons(result(**{name: {"seconds": [0.0, 1e-7]}}), 2) == [
        f"{name}: a time of 0 s is none: the clock saw nothing"
    ]
    assert syscall.reasons(result(**{name: {"seconds": [2.5e-10, 2.5e-10]}}), 2)[-1] == (
        f"{name} takes 2.5e-10 s, the empty loop around it 2.5e-10 s: it did nothing"
    )
    (reason,) = syscall.reasons(result(**{name: {"size": 2}}), 2)
    assert reason.startswith(f"{name}: timed stretches last ")


def test_one_cpu_has_no_hand_over_between_two() -> None:
    found = result(futex_two_cpus=None, pipe_two_cpus=None)
    assert len(syscall.reasons(found, 2)) == 2
    assert syscall.reasons({**found, "cpus": [3]}, 2) == []


def test_a_clock_as_slow_as_its_call_is_no_vdso() -> None:
    assert syscall.vdso_used([2e-8, 2e-8, 9.0], [1e-7, 1e-7])
    assert not syscall.vdso_used([1.02e-7], [1e-7])
    assert not syscall.vdso_used([7.5e-8], [1e-7])


def test_cores_by_the_kernels_lists(tmp_path: Path) -> None:
    for cpu, siblings in enumerate(("0,2\n", "1,3\n", "0,2\n")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings)
    assert syscall.share_core([0, 1], str(tmp_path)) is False
    assert syscall.share_core([0, 2], str(tmp_path)) is True
    assert syscall.share_core([0], str(tmp_path)) is None
    assert syscall.share_core([0, 3], str(tmp_path)) is None


def test_adapter_gives_a_sample_for_each_batch(tmp_path: Path) -> None:
    native_runs.put_result(tmp_path, "syscall", result(pipe_two_cpus=None) | {"cpus": [5]})
    task = syscall.set_up(native_runs.request(tmp_path, "syscall", {"batches": 2}))
    assert (task.epochs, task.timed) == (1, False)
    assert list(task.steps(0)) == [None]
    assert (tmp_path / "arguments").read_text() == "--batches 2\n"
    found = [(s["metric"], s["index"], s["value"], s["unit"]) for s in task.samples()]
    assert found[:2] == [("getpid_seconds", 0, 1e-7, "s"), ("getpid_seconds", 1, 3e-7, "s")]
    assert len(found) == 2 * 10
    reasons, facts = task.check()
    assert reasons == []
    assert facts["cpus"] == [5]
    assert facts["cpus_share_core"] is None
    assert facts["tick_seconds"] == pytest.approx(2e-8)
    assert facts["loop_seconds"] == pytest.approx(2.5e-10)
    assert facts["vdso_used"] is True
    assert facts["work"] == {"batches": 2, "operations": sorted({*NAMES, "loop"} - {"pipe_two_cpus"})}
    assert set(task.software()) == {"program", "sha256"}


def test_a_program_that_fails_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "syscall").write_text("#!/bin/sh\necho no device >&2\nexit 1\n")
    (tmp_path / "syscall").chmod(0o755)
    task = syscall.set_up(native_runs.request(tmp_path, "syscall", {"batches": 2}))
    with pytest.raises(NativeError, match="syscall ended with status 1: no device"):
        list(task.steps(0))


Make = Callable[[str], Path]


@pytest.fixture
def program(native_program: Make) -> Path:
    return native_program("syscall")


def test_program_times_every_operation(program: Path) -> None:
    status, out, err = native_runs.said(program, "--batches", "3", "--batch-us", "100")
    assert (status, err) == (0, "")
    found = json.loads(out)
    allowed = sorted(os.sched_getaffinity(0))
    assert found["cpus"] == allowed[:2]
    expected = ["loop", *NAMES] if len(allowed) > 1 else ["loop", *(n for n in NAMES if "two" not in n)]
    assert list(found["operations"]) == expected
    for name, operation in found["operations"].items():
        assert operation["size"] % 2 == 0, name
        assert len(operation["seconds"]) == 3, name
        assert all(value > 0 for value in operation["seconds"]), name
    assert syscall.reasons(found, 3) == []


def test_program_keeps_to_one_cpu(program: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})  # inherited
    try:
        status, out, _ = native_runs.said(program, "--batches", "1", "--batch-us", "100")
    finally:
        os.sched_setaffinity(0, before)
    found = json.loads(out)
    assert (status, found["cpus"]) == (0, [cpu])
    assert [name for name in found["operations"] if "two_cpus" in name] == []
    assert syscall.reasons(found, 1) == []


def test_a_batch_is_as_long_as_asked(program: Path) -> None:
    found = json.loads(native_runs.said(program, "--batches", "9", "--batch-us", "1000")[1])
    getpid = found["operations"]["getpid"]
    # The median: a busy machine stretches single batches, and calibration takes the shortest.
    assert 0.3e-3 < sorted(getpid["seconds"])[4] * getpid["size"] < 10e-3


def test_the_spawned_process_ends_at_once(program: Path) -> None:
    assert native_runs.said(program, "--spawned") == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--batches", "0"], "--batches: 0 is out of range"),
        (["--batch-us"], "--batch-us: the value is missing"),
        (["--loops", "3"], "is no argument; allowed: --batches, --batch-us"),
    ],
)
def test_wrong_arguments_are_refused(program: Path, arguments: list[str], says: str) -> None:
    status, out, err = native_runs.said(program, *arguments)
    assert (status, out) == (2, "")
    assert says in err


def test_a_program_that_cannot_find_itself_says_so(program: Path, tmp_path: Path) -> None:
    nowhere = Path("nowhere")
    status, out, err = native_runs.said(nowhere, "--batches", "1", executable=program, cwd=tmp_path)
    assert (status, out) == (1, "")
    assert err.startswith("nowhere: the program's own file cannot be started again: ")
