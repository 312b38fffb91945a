"""A finished run becomes a row: does it count, why not, was it disturbed, its times on the script's clock."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from scripted_runtime import EXITED, FINISHED, QUIET, REQUESTED, SECOND, block_request, events

from tare import evaluate as module
from tare import ground
from tare.cache_level import CacheLevel
from tare.ground import BlockRequest, Ground, survey
from tare.run import Ended
from tare.runtimes.base import CREATED, STARTED, LaunchSpec, Outcome


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlockRequest:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ground.fingerprint, "node_facts", lambda: {"node": "n", "machine_id": "m"})
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    return block_request(tmp_path / "given")


class Judge:
    """Evaluates a run whose events file has a given content."""

    def __init__(self, request: BlockRequest, folder: Path) -> None:
        folder.mkdir()
        self.request, self.folder = request, folder
        self.ground: Ground = survey(request)
        self.cache = CacheLevel(request, self.ground, first=False)
        self.cache.resident_before = 0.25

    def __call__(
        self, content: str | None, outcome: Outcome = FINISHED, timed_out: bool = False, stderr: str = ""
    ) -> dict[str, Any]:
        if content is not None:
            (self.folder / "events.jsonl").write_text(content)
        (self.folder / "stderr.txt").write_text(stderr)
        spec = LaunchSpec(
            "host", "process", (), {}, str(self.folder), str(self.folder), None, str(self.folder), "loopback"
        )
        ended = Ended(outcome, spec, timed_out)
        return module.evaluate(self.request, self.ground, ended, self.folder, self.cache)


@pytest.fixture
def judge(request_: BlockRequest, tmp_path: Path) -> Judge:
    return Judge(request_, tmp_path / "run")


def lines(**changes: Any) -> str:
    return "".join(json.dumps(event) + "\n" for event in events(**changes))


def test_a_good_run_on_the_scripts_clock(judge: Judge) -> None:
    row = judge(lines())
    assert (row["status"], row["reasons"], row["flags"]) == ("ok", [], [])
    assert row["seconds_to_start"] == pytest.approx(0.5, abs=1e-12)
    assert row["seconds_to_ready"] == pytest.approx(2.0, abs=1e-12)
    assert row["seconds_total"] == pytest.approx(10.0, abs=1e-12)
    assert (row["cpu_seconds"], row["max_rss_bytes"], row["device_read_bytes"]) == (9.5, 1 << 20, 4096)
    assert row["resident_before"] == 0.25
    assert row["samples"] == [
        {"phase": phase, "epoch": n, "index": 0, "metric": "epoch_seconds", "unit": "s", "value": value}
        for n, (phase, value) in enumerate((("first", pytest.approx(3.0)), ("steady", pytest.approx(2.0))))
    ]


def test_start_is_split_where_the_runtime_tells_its_moments(request_: BlockRequest, tmp_path: Path) -> None:
    judge = Judge(
        dataclasses.replace(request_, workload="startup", factors={}, dataset=None), tmp_path / "run"
    )
    leaving = EXITED - SECOND // 4
    content = lines(end={"leaving_ns": leaving})
    moments = {CREATED: REQUESTED + SECOND // 8, STARTED: REQUESTED + SECOND // 2}
    split = judge(content, dataclasses.replace(FINISHED, moments=moments))
    times = {one["metric"]: one["value"] for one in split["samples"] if one["phase"] == "startup"}
    assert times == {
        "start_seconds": pytest.approx(0.5),
        "total_seconds": pytest.approx(10.0),
        "create_seconds": pytest.approx(0.125),
        "start_call_seconds": pytest.approx(0.375),
        "first_instruction_seconds": pytest.approx(0.375),
        "exit_seconds": pytest.approx(0.25),
    }
    whole = judge(lines())
    told = [one["metric"] for one in whole["samples"] if one["phase"] == "startup"]
    assert told == [
        "start_seconds",
        "total_seconds",
    ]  # no moments, and a worker that does not tell when it leaves


def test_case_46_a_slow_start_is_in_no_step(judge: Judge) -> None:
    """Whatever the engine takes before the first instruction: the steps' times are the worker's own."""
    quick = judge(lines())
    slow = judge(lines(), dataclasses.replace(FINISHED, requested_ns=REQUESTED - 50 * SECOND))
    assert slow["samples"] == quick["samples"]
    assert slow["seconds_to_start"] == pytest.approx(50.5, abs=1e-9)
    assert slow["seconds_total"] == pytest.approx(60.0, abs=1e-9)


def test_starting_is_a_metric_of_the_empty_workload_alone(judge: Judge) -> None:
    judge.request = dataclasses.replace(judge.request, workload="startup", cell="startup", factors={})
    without = [event for event in events() if event["event"] != "sample"]
    row = judge("".join(json.dumps(event) + "\n" for event in without))
    assert row["samples"] == [
        {
            "phase": "startup",
            "epoch": None,
            "index": 0,
            "metric": name,
            "unit": "s",
            "value": pytest.approx(value),
        }
        for name, value in (("start_seconds", 0.5), ("total_seconds", 10.0))
    ]


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (None, "failed", "worker wrote no events: it was killed or never came to its first line"),
        ("", "failed", "worker: no event start, ready, check, end: it ended before its work was done"),
        ("garbage\n", "failed", "worker's events, line 1: not JSON: 'garbage'"),
        (lines()[: len(lines()) // 2], "failed", "not JSON"),
        (lines().rsplit("\n", 2)[0] + "\n", "failed", "no event end"),
        (lines(check={"ok": False, "reasons": ["loss does not fall"]}), "invalid", "loss does not fall"),
        (lines(check={"ok": False, "reasons": []}), "invalid", "its own check failed without a reason"),
        (lines(first={"ns": 0}), "failed", "epoch_seconds is 0.0, must be finite and > 0"),
        (
            lines() + json.dumps({"event": "error", "kind": "OSError", "message": "disk gone"}) + "\n",
            "failed",
            "worker: OSError: disk gone",
        ),
    ],
)
def test_a_run_that_does_not_count_has_its_reason_and_no_number(
    judge: Judge, content: str | None, status: str, reason: str
) -> None:
    row = judge(content)
    assert row["status"] == status
    assert len(row["reasons"]) == 1
    assert reason in row["reasons"][0]
    assert (row["samples"], row["flags"]) == ([], [])
    assert row["seconds_total"] == pytest.approx(10.0, abs=1e-12)


GARBAGE: list[dict[str, dict[str, Any]]] = [
    {"end": {"ns": "soon"}},
    {"end": {"counters": [1]}},
    {"end": {"counters": {"busy_seconds": "many"}}},
    {"end": {"cpu_seconds": "lots"}},
    {"end": {"cpu_seconds": float("inf")}},
    {"end": {"max_rss_bytes": 1.5}},
    {"end": {"max_rss_bytes": 1 << 70}},
    {"end": {"device_read_bytes": {}}},
    {"ready": {"counters": "none"}},
    {"ready": {"ns": None}},
    {"check": {"facts": "all well"}},
    {"check": {"reasons": "loss rose"}},
    {"check": {"ok": False, "reasons": None}},
    {"fingerprint": {"libraries": [1]}},
    {"fingerprint": {"libraries": 5}},
    {"fingerprint": {"process": 3}},
    {"first": {"device_read_bytes": "some"}},
    {"first": {"index": 1 << 70}},
]


@pytest.mark.parametrize("change", GARBAGE, ids=json.dumps)
def test_events_of_another_shape_are_a_failed_run_and_no_crash(judge: Judge, change: dict[str, Any]) -> None:
    row = judge(lines(**change))
    assert row["status"] == "failed"
    assert row["reasons"][0].startswith("worker's events")
    assert row["samples"] == []


def test_a_bad_exit_fails_whatever_the_worker_wrote(judge: Judge) -> None:
    outcome = Outcome(139, REQUESTED, EXITED, "ended by SIGSEGV")
    row = judge(lines(), outcome, stderr="line one\n\nSegmentation fault\n")
    assert row["status"] == "failed"
    assert row["reasons"] == ["exit status 139 (ended by SIGSEGV); last words: line one | Segmentation fault"]
    assert row["samples"] == []
    # What is known stays in the row.
    assert row["cpu_seconds"] == 9.5


def test_a_killed_worker_says_both(judge: Judge) -> None:
    row = judge(None, Outcome(137, REQUESTED, EXITED, "ended by SIGKILL"))
    assert row["reasons"] == [
        "worker wrote no events: it was killed or never came to its first line",
        "exit status 137 (ended by SIGKILL)",
    ]
    assert (row["seconds_to_start"], row["cpu_seconds"], row["max_rss_bytes"]) == (None, None, None)


def test_a_run_out_of_memory_and_one_out_of_time_say_so(judge: Judge) -> None:
    killed = Outcome(137, REQUESTED, EXITED, "ended by SIGKILL", oom_killed=True)
    assert "out of memory: the kernel killed the run" in judge(None, killed)["reasons"]
    late = judge(None, dataclasses.replace(killed, oom_killed=False), timed_out=True)
    assert late["status"] == "failed"
    assert "time-out: the run was ended by Tare (run_timeout_seconds)" in late["reasons"]
    # A run that wrote everything and then hung is no number either.
    hung = judge(lines(), dataclasses.replace(FINISHED), timed_out=True)
    assert (hung["status"], hung["samples"]) == ("failed", [])


def test_a_disturbed_run_keeps_its_numbers_and_is_flagged(judge: Judge) -> None:
    counters = {**QUIET, "busy_seconds": 58.0, "own_cpu_seconds": 6.0}  # 3 of 14 CPU seconds by others
    row = judge(lines(end={"counters": counters}))
    assert row["status"] == "ok"
    assert row["flags"] == [
        "disturbed: other processes used 21% of the CPU time (limit 10%); stop other work on this machine"
    ]
    assert len(row["samples"]) == 2


def test_case_24_a_swapping_run_is_flagged_and_its_pages_are_recorded(judge: Judge) -> None:
    counters = {
        **QUIET,
        "own_cpu_seconds": 9.0,
        "busy_seconds": 58.0,
        "swap_in_pages": 10,
        "swap_out_pages": 14,
    }
    row = judge(
        lines(
            ready={"counters": {**QUIET, "major_faults": 5}},
            end={"counters": {**counters, "major_faults": 12}},
        )
    )
    assert row["flags"] == [
        "disturbed: 8 pages were swapped in or out (limit 0); free memory, or use smaller levels of the factors"
    ]
    recorded = json.loads(row["fingerprint"])["counters"]
    assert (recorded["swap_in_pages"], recorded["swap_out_pages"], recorded["major_faults"]) == (3, 5, 7)


def test_what_the_kernel_does_not_count_is_recorded_as_unknown(judge: Judge) -> None:
    row = judge(lines(end={"counters": {**QUIET, "swap_in_pages": None}}))
    assert json.loads(row["fingerprint"])["counters"]["swap_in_pages"] is None
    failed = judge(lines().splitlines()[0])
    assert json.loads(failed["fingerprint"])["counters"] == {}


def test_the_fingerprint_is_there_for_a_failed_run_too(judge: Judge) -> None:
    recorded = json.loads(judge(None, Outcome(1, REQUESTED, EXITED, "ended with status 1"))["fingerprint"])
    assert recorded["node"] == {"node": "n", "machine_id": "m"}
    assert (recorded["process"], recorded["libraries"], recorded["check"]) == (None, None, {})
    assert (recorded["launch"]["runtime"], recorded["launch"]["data_sha256"]) == ("host", "s")
