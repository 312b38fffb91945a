"""memory: the program, which pages count, and what makes its numbers none."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import native_runs
import pytest

from tare.workloads import memory
from tare.workloads.registry import WORKLOADS

MIB = 1 << 20
SIZE = 4 * MIB
PAGES = 1024
HUGE = 2 * MIB
ROUNDS = memory.ROUNDS
FIRST = {"first_touch", "first_touch_huge"}


def result(
    base: Sequence[int] = (PAGES,) * ROUNDS,
    default: Sequence[int] = (PAGES,) * ROUNDS,
    huge: Sequence[int] = (2,) * ROUNDS,
) -> dict[str, Any]:
    """A result of touching 4 MiB, with the faults counted in each round."""
    return {
        "page_bytes": 4096,
        "tick_ns": 20,
        "cpu": 0,
        "touch_base": {"seconds": [2e-3] * ROUNDS, "faults": list(base)},
        "fork_base": {"seconds": [5e-4] * ROUNDS},
        "unmap_base": {"seconds": [1e-3] * ROUNDS},
        "touch_default": {"seconds": [2e-3] * ROUNDS, "faults": list(default)},
        "touch_huge": {"seconds": [1e-3] * ROUNDS, "faults": list(huge)},
    }


def task(
    folder: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], enabled: str | None
) -> memory.Memory:
    """A finished run of the adapter on a machine with that setting of huge pages."""
    monkeypatch.setattr(memory, "huge_pages", lambda: {"enabled": enabled})
    monkeypatch.setattr(memory, "huge_page_bytes", lambda _: HUGE)
    native_runs.put_result(folder, "memory", found)
    made = memory.set_up(native_runs.request(folder, "memory", {"bytes": SIZE}))
    assert (made.epochs, made.timed, list(made.steps(0))) == (1, False, [None])
    return made


def medians(made: memory.Memory) -> dict[str, tuple[float, str, int]]:
    """Return metric → its first value, unit and number of samples."""
    samples = made.samples()
    return {
        name: next(
            (s["value"], s["unit"], sum(other["metric"] == name for other in samples))
            for s in samples
            if s["metric"] == name
        )
        for name in {s["metric"] for s in samples}
    }


def test_rates_and_times_in_si_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(tmp_path, monkeypatch, result(), "madvise")
    assert (tmp_path / "arguments").read_text() == f"--bytes {SIZE} --huge-bytes {HUGE} --rounds {ROUNDS}\n"
    found = medians(made)
    assert found == {
        "page_fault_rate": (pytest.approx(512e3), "fault/s", ROUNDS),
        "first_touch": (pytest.approx(SIZE / 2e-3), "B/s", ROUNDS),
        "first_touch_huge": (pytest.approx(SIZE / 1e-3), "B/s", ROUNDS),
        "unmap_rate": (pytest.approx(1024e3), "page/s", ROUNDS),
        "fork_seconds": (5e-4, "s", ROUNDS),
    }
    stated = {metric.name: (metric.unit, metric.optional) for metric in WORKLOADS["memory"].metrics}
    assert stated == {name: (unit, name in FIRST) for name, (_, unit, _) in found.items()}


def test_facts_say_what_was_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(tmp_path, monkeypatch, result(), "madvise")
    reasons, facts = made.check()
    assert reasons == []
    assert facts["work"] == {"bytes": SIZE, "rounds": ROUNDS, "page_bytes": 4096}
    assert (facts["faults_expected"], facts["faults"]) == (PAGES, [PAGES] * ROUNDS)
    assert (facts["first_touch_page_bytes"], facts["first_touch_huge_page_bytes"]) == (4096, HUGE)
    assert facts["huge_pages_enabled"] == "madvise"
    assert set(made.software()) == {"program", "sha256"}


MIXED = (2,) * (ROUNDS - 1) + (514,)


@pytest.mark.parametrize(
    ("enabled", "default", "huge", "numbers"),
    [
        ("always", (2,) * ROUNDS, (2,) * ROUNDS, FIRST),
        (
            "always",
            (PAGES,) * ROUNDS,
            (2,) * ROUNDS,
            {"first_touch_huge"},
        ),  # fragmented, or switched off here
        ("always", MIXED, MIXED, set()),
        ("madvise", (PAGES,) * ROUNDS, MIXED, {"first_touch"}),
        ("madvise", (2,) * ROUNDS, (2,) * ROUNDS, {"first_touch_huge"}),
        ("never", (PAGES,) * ROUNDS, (PAGES,) * ROUNDS, {"first_touch"}),
        (None, (PAGES,) * ROUNDS, (PAGES,) * ROUNDS, {"first_touch"}),
        ("madvise", (PAGES // 16,) * ROUNDS, (2,) * ROUNDS, {"first_touch_huge"}),  # folios of 64 KiB
    ],
)
def test_a_first_touch_counts_with_the_pages_that_are_configured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    enabled: str | None,
    default: Sequence[int],
    huge: Sequence[int],
    numbers: set[str],
) -> None:
    made = task(tmp_path, monkeypatch, result(default=default, huge=huge), enabled)
    assert made.check().reasons == []
    assert set(medians(made)) & FIRST == numbers


@pytest.mark.parametrize("count", [0, 2, PAGES - 1, PAGES + 17])
def test_faults_must_be_the_pages_touched(count: int) -> None:
    assert memory.fault_reasons([PAGES, PAGES + 16], PAGES) == []
    assert memory.fault_reasons([PAGES, count, PAGES], PAGES) == [
        f"{count} page faults were counted for 1024 pages (up to 1040 are expected) in 1 of 3 rounds: the kernel "
        "did not give one page a fault; look at huge pages and at the memory limit"
    ]


def test_wrong_faults_and_times_refuse_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = result(base=(2,) * ROUNDS)
    found["fork_base"]["seconds"][3] = 0.0
    found["unmap_base"]["seconds"][-1] = 0.0
    made = task(tmp_path, monkeypatch, found, "always")
    assert [reason.split(":")[0] for reason in made.check().reasons] == [
        "2 page faults were counted for 1024 pages (up to 1040 are expected) in 10 of 10 rounds",
        "unmap_base",
        "fork_base",
    ]
    assert medians(made)["unmap_rate"][2] == ROUNDS - 1  # no rate of a time of 0


def test_a_size_that_cannot_be_is_refused() -> None:
    memory.check_size(512 * MIB, 1024 * MIB)
    with pytest.raises(
        memory.SizeError, match=r"bytes: 3145728 is no multiple of 2097152 \(2 MiB\); choose one"
    ):
        memory.check_size(3 * MIB, 1024 * MIB)
    with pytest.raises(memory.SizeError, match="bytes: 538968064 is more than half of the 1073741824 bytes"):
        memory.check_size(514 * MIB, 1024 * MIB)


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("2097152\n", 4 * MIB, 2 * MIB),
        ("33554432\n", 128 * MIB, 32 * MIB),
        ("536870912\n", 128 * MIB, 2 * MIB),
        (None, 4 * MIB, 2 * MIB),
    ],
)
def test_size_of_huge_pages(tmp_path: Path, text: str | None, size: int, expected: int) -> None:
    path = tmp_path / "hpage_pmd_size"
    if text is not None:
        path.write_text(text)
    assert memory.huge_page_bytes(size, str(path)) == expected


Make = Callable[[str], Path]


@pytest.fixture
def program(native_program: Make) -> Path:
    return native_program("memory")


def test_program_faults_once_a_page(program: Path) -> None:
    status, out, err = native_runs.said(program, "--bytes", str(SIZE), "--rounds", "3")
    assert (status, err) == (0, "")
    found = json.loads(out)
    pages = SIZE // found["page_bytes"]
    assert memory.fault_reasons(found["touch_base"]["faults"], pages) == []
    for name in ("touch_base", "fork_base", "unmap_base", "touch_default", "touch_huge"):
        assert len(found[name]["seconds"]) == 3, name
        assert all(value > 0 for value in found[name]["seconds"]), name
    assert all(1 <= count <= pages + 16 for count in found["touch_huge"]["faults"])


def test_memory_that_is_not_there_is_told(program: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)
    status, out, err = native_runs.said(
        program,
        *("--bytes", str(512 * MIB)),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (64 * MIB, limit[1])),
    )
    assert (status, out) == (1, "")
    assert err.startswith("536870912 bytes of memory cannot be mapped: ")
    assert err.endswith("ask for less (factor bytes)\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--bytes", "3145728"], "--bytes: 3145728 is no multiple of --huge-bytes 2097152"),
        (["--bytes", "3145728", "--huge-bytes", "1048575"], "is no multiple of --huge-bytes 1048575"),
        (["--bytes", "4096"], "--bytes: 4096 is out of range"),
        (["--rounds", "none"], '--rounds: "none" is no whole number'),
    ],
)
def test_wrong_arguments_are_refused(program: Path, arguments: list[str], says: str) -> None:
    status, out, err = native_runs.said(program, *arguments)
    assert (status, out) == (2, "")
    assert says in err
