"""stream: sizes by the caches, the program's arithmetic, and what makes its numbers none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import native_runs
import pytest

from tare.workloads import stream
from tare.workloads.registry import WORKLOADS
from tare.workloads.threads import thread_reasons

MIB = 1 << 20
ROUNDS = stream.REPETITIONS + 1
KERNELS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}


def result(
    ns: int = 10_000_000, errors: Sequence[float | None] = (0.0, 1e-16), **changes: Any
) -> dict[str, Any]:
    """A result of arrays of 64 MiB; the first round takes ten times as long."""
    return {
        "isa": "v3",
        "stores": "ordinary",
        "threads": 2,
        "array_bytes": 64 * MIB,
        "granularity_ns": 20,
        "kernels": {
            name: {"bytes": touched * 64 * MIB, "ns": [10 * ns, *[ns] * stream.REPETITIONS]}
            for name, touched in KERNELS.items()
        },
        "errors": list(errors),
        **changes,
    }


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], stream.Stream]:
    """A finished run of the adapter on a machine with 16 MiB of last-level cache and two CPUs."""
    monkeypatch.setattr(stream, "last_level_bytes", lambda: 16 * MIB)
    monkeypatch.setattr(stream, "effective_cpus", lambda: 2)

    def finish(found: dict[str, Any]) -> stream.Stream:
        native_runs.put_result(tmp_path, "stream", found)
        made = stream.set_up(native_runs.request(tmp_path, "stream", {"bytes": "quick"}))
        assert (made.epochs, made.timed, list(made.steps(0))) == (1, False, [None])
        return made

    return finish


def test_rates_in_si_units_without_the_first_repetition(
    run: Callable[[dict[str, Any]], stream.Stream], tmp_path: Path
) -> None:
    made = run(result())
    assert (tmp_path / "arguments").read_text() == f"--bytes {64 * MIB} --threads 2 --repetitions {ROUNDS}\n"
    samples = made.samples()
    for name, touched in KERNELS.items():
        values = [s["value"] for s in samples if s["metric"] == f"stream_{name}"]
        assert values == [pytest.approx(touched * 64 * MIB / 0.01)] * stream.REPETITIONS
    assert {(s["unit"], s["phase"]) for s in samples} == {("B/s", "steady")}
    stated = {metric.name for metric in WORKLOADS["stream"].metrics}
    assert stated == {s["metric"] for s in samples}
    check = made.check()
    assert check.reasons == []
    assert check.facts == {
        "work": {"array_bytes": 64 * MIB, "repetitions": 15, "threads": 2, "isa": "v3", "stores": "ordinary"},
        "cache_bytes": 16 * MIB,
        "tick_seconds": pytest.approx(2e-8),
        "largest_error": 1e-16,
        "best": {name: pytest.approx(touched * 64 * MIB / 0.01) for name, touched in KERNELS.items()},
    }
    assert made.software()["program"] == "stream"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (result(errors=[0.0, 1e-12]), "an element differs by 1e-12 from its value, at most 1e-13"),
        (result(errors=[0.0, None]), "an element differs by nan"),
        (result(ns=1000), "stream copy: timed stretches last 1e-06 s, 100 steps of the clock"),
        (result(ns=0), "stream triad: a time of 0 s is none"),
    ],
)
def test_numbers_that_are_none(
    run: Callable[[dict[str, Any]], stream.Stream], found: dict[str, Any], message: str
) -> None:
    assert any(message in reason for reason in run(found).check().reasons)


def test_more_threads_than_cpus_are_no_measurement() -> None:
    assert thread_reasons(2, 2) == []
    assert thread_reasons(3, 2) == ["threads: 3 asked for, 2 effective CPUs; set threads to at most that"]


@pytest.mark.parametrize(
    ("level", "cache", "memory", "expected"),
    [
        ("quick", 32 * MIB, 8 << 30, 128 * MIB),
        ("quick", 512 * MIB, 64 << 30, 2048 * MIB),
        ("quick", 33 * MIB + 1, 8 << 30, 133 * MIB),
        (200 * MIB + 5, 32 * MIB, 8 << 30, 200 * MIB),
        (128 * MIB, 32 * MIB, 480 * MIB, 128 * MIB),
    ],
)
def test_arrays_are_four_times_the_caches(level: str | int, cache: int, memory: int, expected: int) -> None:
    assert stream.array_bytes(level, cache, memory) == expected


@pytest.mark.parametrize(
    ("level", "memory"), [(127 * MIB, 8 << 30), ("quick", 479 * MIB), (3 << 30, 8 << 30), (1, 8 << 30)]
)
def test_arrays_that_would_lie_about_memory_are_refused(level: str | int, memory: int) -> None:
    with pytest.raises(
        stream.SizeError, match=r"bytes: arrays of \d+ bytes cannot be measured; .* 134217728 … \d+"
    ):
        stream.array_bytes(level, 32 * MIB, memory)


@pytest.fixture(scope="session")
def program(native_program: Callable[[str], Path]) -> Path:
    return native_program("stream")


@pytest.mark.parametrize("isa", ["base", "auto"])
@pytest.mark.parametrize("size", [MIB, MIB + 8 * 1001])
def test_the_program_computes_and_counts(program: Path, isa: str, size: int) -> None:
    """A size that is no multiple of a page too: the last part is shorter."""
    threads = min(2, len(os.sched_getaffinity(0)))
    arguments = ["--bytes", str(size), "--threads", str(threads), "--repetitions", "3", "--isa", isa]
    status, stdout, stderr = native_runs.said(program, *arguments)
    assert (status, stderr) == (0, "")
    found = json.loads(stdout)
    assert {name: kernel["bytes"] for name, kernel in found["kernels"].items()} == {
        name: touched * size for name, touched in KERNELS.items()
    }
    assert all(len(kernel["ns"]) == 3 and min(kernel["ns"]) > 0 for kernel in found["kernels"].values())
    assert len(found["errors"]) == 3 * threads
    assert 0 <= max(found["errors"]) < 1e-15
    assert (found["threads"], found["stores"], found["array_bytes"]) == (threads, "ordinary", size)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "--bytes is missing"),
        (["--bytes", "8"], 2, "--bytes: 8 is out of range"),
        (
            ["--bytes", str(MIB), "--repetitions", "1"],
            2,
            "--repetitions: 1 is out of range; allowed: 2 to 1000",
        ),
        (["--bytes", str(1 << 50)], 1, "no memory for an array of 1125899906842624 bytes"),
        (["--bytes", str(MIB), "--threads", "4096"], 1, "4096 threads are asked for"),
    ],
)
def test_the_program_refuses(program: Path, arguments: list[str], status: int, message: str) -> None:
    found = native_runs.said(program, *arguments)
    assert found[:2] == (status, "")
    assert message in found[2]
