"""A whole block with played runs: what becomes a row, what is repeated, what is kept, and what is never written."""

from __future__ import annotations

import dataclasses
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scripted_runtime import QUIET, Played, Script, Scripted, block_request, play, software

from tare import ground, machine_lock, measure, page_cache, records, runtimes
from tare.ground import BlockRequest
from tare.measure import measure_block
from tare.order import slots
from tare.page_cache import EvictionResult
from tare.run import WORKFLOW_VARIABLE, WorkflowGoneError
from tare.runtimes.base import LaunchError, LaunchSpec, Outcome, Unavailable
from tare.signals import ENDING
from tare.sweep import SweepError
from tare.variants import Variant

DISTURBED = {"end": {"counters": {**QUIET, "busy_seconds": 64.0}}}


class Bench(NamedTuple):
    """A folder to measure in, a request, and its two runtimes."""

    folder: Path
    request: BlockRequest
    host: Scripted
    docker: Scripted

    @property
    def block(self) -> Path:
        return self.folder / "results/s/blocks/train-torch-fcn5/1.parquet"

    @property
    def logs(self) -> Path:
        return self.folder / "results/s/logs/runs/train-torch-fcn5/1"

    @property
    def scratch(self) -> Path:
        return self.folder / "results/s/scratch"

    def measure(self, **changes: Any) -> list[dict[str, Any]]:
        measure_block(dataclasses.replace(self.request, **changes), self.block)
        rows: list[dict[str, Any]] = records.read(self.block, records.BLOCK).to_pylist()
        return rows

    def order(self) -> list[str]:
        """Runtimes of block 1 in the order they run."""
        of = self.request
        return [slot.runtime for slot in slots(of.seed, of.cell, of.block, of.runtimes, of.control)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(WORKFLOW_VARIABLE, raising=False)
    monkeypatch.setattr(machine_lock, "lock_path", lambda: tmp_path / "lock")
    monkeypatch.setattr(measure.sweep, "sweep", list)
    monkeypatch.setattr(ground.fingerprint, "node_facts", lambda: {"node": "n", "machine_id": "m"})
    monkeypatch.setattr(page_cache, "evict", lambda _: EvictionResult(1.0, 0.0, "fadvise", True))
    monkeypatch.setattr("tare.evaluate.os.cpu_count", lambda: 2)
    host, docker = Scripted("host", play()), Scripted("docker", play())
    monkeypatch.setitem(runtimes.RUNTIMES, "host", host)
    monkeypatch.setitem(runtimes.RUNTIMES, "docker", docker)
    return Bench(tmp_path, block_request(tmp_path / "given"), host, docker)


def statuses(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    return {name: {row["status"] for row in rows if row["runtime"] == name} for name in ("host", "docker")}


def test_every_slot_in_its_order_is_a_whole_row(bench: Bench) -> None:
    rows = bench.measure()
    assert [row["runtime"] for row in rows] == bench.order()
    assert sorted((row["runtime"], row["role"]) for row in rows) == [
        ("docker", "measure"),
        ("host", "control"),
        ("host", "measure"),
    ]
    assert [(row["position"], row["attempt"], row["block"]) for row in rows] == [(n, 1, 1) for n in range(3)]
    assert len({row["run_id"] for row in rows}) == 3
    for row in rows:
        assert (row["status"], row["reasons"], row["flags"]) == ("ok", [], [])
        assert (row["node"], row["machine_id"], row["study"]) == ("n", "m", "s")
        assert dict(row["factors"])["batch"] == "512"
        assert row["image_digest"] == (None if row["runtime"] == "host" else "sha256:d")
        assert [sample["metric"] for sample in row["samples"]] == ["epoch_seconds"] * 2
    began = [row["started_at"] for row in rows]
    assert began == sorted(began)
    assert not bench.logs.exists()
    assert list(bench.scratch.iterdir()) == []


def test_every_run_gets_the_same_environment_and_a_name_of_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    rows = bench.measure()
    environments = [dict(one.environment) for one in (*bench.host.requests, *bench.docker.requests)]
    assert {one.pop("TARE_RUN_ID") for one in environments} == {row["run_id"] for row in rows}
    assert [one for one in environments if one != environments[0]] == []
    assert environments[0]["OMP_NUM_THREADS"] == "2"
    assert "OPENBLAS_CORETYPE" not in environments[0]


def test_a_failed_build_fails_its_rows_and_starts_nothing(bench: Bench) -> None:
    software(
        bench.request.wheel.parent, image={"status": "failed", "reasons": ["E: broken"], "image_id": None}
    )
    rows = bench.measure()
    assert statuses(rows) == {"host": {"ok"}, "docker": {"failed"}}
    [failed] = [row for row in rows if row["runtime"] == "docker"]
    assert (failed["reasons"], failed["samples"], failed["seconds_total"]) == (["image: E: broken"], [], None)
    assert bench.docker.requests == []


def test_what_the_machine_lacks_is_skipped_and_the_rest_measured(bench: Bench) -> None:
    bench.host.why = Unavailable("no Python 3.11", "install python3.11")
    rows = bench.measure()
    assert statuses(rows) == {"host": {"skipped"}, "docker": {"ok"}}
    assert {row["reasons"][0] for row in rows if row["runtime"] == "host"} == {
        "host: no Python 3.11; install python3.11"
    }


def test_failed_data_fail_every_row(bench: Bench) -> None:
    software(bench.request.wheel.parent, dataset={"status": "failed", "reasons": ["labels: wrong magic"]})
    rows = bench.measure()
    assert {(row["status"], row["reasons"][0]) for row in rows} == {("failed", "data: labels: wrong magic")}
    assert bench.host.requests == bench.docker.requests == []


def disturbed_once(bench: Bench) -> None:
    bench.docker.scripts = [play(**DISTURBED), play()]


def test_a_disturbed_block_is_repeated_whole_and_every_attempt_kept(bench: Bench) -> None:
    disturbed_once(bench)
    rows = bench.measure()
    assert [row["attempt"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["runtime"] for row in rows] == bench.order() * 2
    flagged = [(row["attempt"], row["runtime"]) for row in rows if row["flags"]]
    assert flagged == [(1, "docker")]
    assert {row["status"] for row in rows} == {"ok"}
    assert all(row["samples"] for row in rows)
    assert len({row["run_id"] for row in rows}) == 6


def test_attempts_end_at_the_cap_and_the_disturbed_stay(bench: Bench) -> None:
    bench.docker.scripts = [play(**DISTURBED)]
    rows = bench.measure(max_attempts=3)
    assert [row["attempt"] for row in rows if row["flags"]] == [1, 2, 3]
    assert len(rows) == 9
    assert len(bench.measure(max_attempts=1)) == 3


def test_repeating_never_looks_at_what_was_measured(bench: Bench) -> None:
    """A run ten times slower, an invalid one and an unproved cold start are no disturbance."""
    slow = {"steady": {"ns": 60_000_000_000}}
    bench.docker.scripts = [play(**slow)]
    assert len(bench.measure()) == 3
    bench.docker.scripts = [play(check={"ok": False, "reasons": ["loss does not fall"]})]
    assert len(bench.measure()) == 3
    bench.docker.scripts = [play(first={"device_read_bytes": 0})]
    rows = bench.measure(factors={**bench.request.factors, "cache": "cold"})
    assert len(rows) == 3
    assert [flag[:10] for row in rows for flag in row["flags"]] == ["unverified"]


def test_a_run_that_is_too_slow_is_ended_and_its_output_kept(bench: Bench) -> None:
    def hang(played: Played) -> Outcome:
        (played.folder / "stderr.txt").write_text("waiting for data\n")
        assert played.killed.wait(20)
        return Outcome(137, 0, 10**9, "ended by SIGKILL")

    bench.docker.scripts = [hang]
    rows = bench.measure(timeout_seconds=0.3)
    [late] = [row for row in rows if row["runtime"] == "docker"]
    assert late["status"] == "failed"
    assert "time-out: the run was ended by Tare (run_timeout_seconds)" in late["reasons"]
    assert late["reasons"][-1] == "exit status 137 (ended by SIGKILL); last words: waiting for data"
    kept = bench.logs / f"1-{late['position']}-docker"
    assert (kept / "stderr.txt").read_text() == "waiting for data\n"
    assert json.loads((kept / "request.json").read_text())["run_id"] == late["run_id"]
    assert list(bench.scratch.iterdir()) == []


def leaves(text: str | None) -> Script:
    def script(played: Played) -> None:
        (played.folder / "stdout.txt").write_text("said something\n")
        if text is not None:
            (played.folder / "events.jsonl").write_text(text)

    return script


@pytest.mark.parametrize(
    "text", [None, "", "\0\1\2", '{"event": "start", "ns": 1}\n{"event": "rea', "[]\n", "null\n"]
)
def test_a_worker_that_writes_nothing_or_garbage_is_one_failed_row(bench: Bench, text: str | None) -> None:
    bench.docker.scripts = [leaves(text)]
    rows = bench.measure()
    assert statuses(rows) == {"host": {"ok"}, "docker": {"failed"}}
    [failed] = [row for row in rows if row["runtime"] == "docker"]
    assert failed["reasons"]
    kept = bench.logs / f"1-{failed['position']}-docker"
    assert (kept / "stdout.txt").read_text() == "said something\n"
    assert (kept / "events.jsonl").exists() == (text is not None)


class OddError(Exception):
    """An error that no code of the harness expects."""


@pytest.mark.parametrize(
    "error", [LaunchError("docker: the engine cannot start the run"), OddError("odd"), KeyError("x")]
)
def test_an_exception_in_one_slot_does_not_hide_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def start(_: LaunchSpec) -> None:
        raise error

    monkeypatch.setattr(bench.docker, "start", start)
    rows = bench.measure()
    assert statuses(rows) == {"host": {"ok"}, "docker": {"failed"}}
    [failed] = [row for row in rows if row["runtime"] == "docker"]
    assert failed["reasons"] == [f"harness: {type(error).__name__}: {error}"]
    assert failed["samples"] == []
    assert list(bench.scratch.iterdir()) == []


def test_an_exception_while_asking_for_a_runtime_is_a_failed_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(_: object) -> None:
        raise ConnectionError("the engine hung up")

    monkeypatch.setattr(bench.docker, "unavailable", unavailable)
    rows = bench.measure()
    assert statuses(rows) == {"host": {"ok"}, "docker": {"failed"}}
    assert "harness: ConnectionError: the engine hung up" in [
        reason for row in rows for reason in row["reasons"]
    ]


def test_output_is_kept_when_setting_the_page_cache_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise OSError("mincore: Input/output error")

    def script(played: Played) -> Outcome:
        (played.folder / "stderr.txt").write_text("ready soon\n")
        (played.folder / "ready").write_text("ready\n")
        assert played.killed.wait(20)
        return Outcome(137, 0, 1)

    monkeypatch.setattr(page_cache, "resident_share", fail)
    monkeypatch.setattr(page_cache, "evict", fail)
    bench.docker.scripts = bench.host.scripts = [script]
    rows = bench.measure()
    assert {(row["status"], row["reasons"][0]) for row in rows} == {
        ("failed", "harness: OSError: mincore: Input/output error")
    }
    assert sorted(path.name for path in bench.logs.iterdir()) == sorted(
        f"1-{row['position']}-{row['runtime']}" for row in rows
    )
    assert {path.read_text() for path in bench.logs.glob("*/stderr.txt")} == {"ready soon\n"}


def test_logs_of_an_earlier_measurement_of_the_block_go(bench: Bench) -> None:
    bench.docker.scripts = [leaves(None)]
    bench.measure()
    assert bench.logs.exists()
    bench.docker.scripts = [play()]
    assert statuses(bench.measure()) == {"host": {"ok"}, "docker": {"ok"}}
    assert not bench.logs.exists()


def test_scratch_of_dead_processes_goes_and_of_other_hosts_stays(bench: Bench) -> None:
    host = socket.gethostname()
    leftover = bench.scratch / f"{host}-{2**22 + 1}"
    others = [
        bench.scratch / f"{host}-2-77",
        bench.scratch / f"other{host}-77",
        bench.scratch / f"{host}x-77",
    ]
    for folder in (leftover, *others):
        (folder / "run").mkdir(parents=True)
        (folder / "run/events.jsonl").write_text("half")
    bench.measure()
    assert sorted(bench.scratch.iterdir()) == sorted(others)


def test_a_full_disk_is_refused_before_anything_is_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(bench.folder)
    monkeypatch.setattr(measure.shutil, "disk_usage", lambda _: usage._replace(free=300_000_000))
    with pytest.raises(
        measure.DiskFullError, match=r"300 MB free, a block needs 537 MB; free some space"
    ) as refused:
        bench.measure()
    assert str(bench.block.parent) in str(refused.value)
    assert bench.host.requests == bench.docker.requests == []
    assert not bench.block.exists()


def test_a_disk_that_fills_up_leaves_no_half_block(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records.pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        bench.measure()
    assert list(bench.block.parent.iterdir()) == []
    assert list(bench.scratch.iterdir()) == []


def test_an_old_block_stays_until_the_new_one_is_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.measure()
    before = bench.block.read_bytes()
    monkeypatch.setattr(bench.docker, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.measure()
    assert bench.block.read_bytes() == before
    assert list(bench.block.parent.iterdir()) == [bench.block]


def interrupt(_: LaunchSpec) -> None:
    raise KeyboardInterrupt


def test_nothing_is_written_when_the_workflow_is_gone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as workflow:
        monkeypatch.setenv(WORKFLOW_VARIABLE, str(workflow.pid))

        def script(played: Played) -> Outcome:
            workflow.kill()
            assert played.killed.wait(20)
            return Outcome(137, 0, 1)

        bench.docker.scripts = bench.host.scripts = [script]
        with pytest.raises(WorkflowGoneError):
            bench.measure()
    assert len(bench.docker.requests) + len(bench.host.requests) == 1
    assert not bench.block.exists()
    assert not bench.logs.exists()
    assert list(bench.scratch.iterdir()) == []
    # A workflow that is dead already: not even the machine is waited for.
    with pytest.raises(WorkflowGoneError):
        bench.measure()


def test_the_machine_is_held_from_sweep_to_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def held(at: str) -> Callable[..., list[str]]:
        def look(*_: object) -> list[str]:
            seen.append(f"{at}: {machine_lock.holder(bench.folder / 'lock').split(' (')[0]}")
            return []

        return look

    def script(played: Played) -> Outcome:
        held("run")()
        return play()(played) or Outcome(0, 0, 1)

    monkeypatch.setattr(measure.sweep, "sweep", held("sweep"))
    bench.docker.scripts = bench.host.scripts = [script]
    bench.measure()
    assert seen == [f"{at}: s: train-torch-fcn5 block 1" for at in ("sweep", "run", "run", "run")]
    with machine_lock.exclusive("free again", path=bench.folder / "lock", announce=pytest.fail):
        pass


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            measure.DiskFullError("results: 3 MB free; free some space"),
            "[tare] results: 3 MB free; free some space",
        ),
        (machine_lock.LockError("/run/lock/x: remove it"), "[tare] /run/lock/x: remove it"),
        (SweepError("container 12 stays; docker rm"), "[tare] container 12 stays; docker rm"),
        (WorkflowGoneError("gone"), "[tare] gone; nothing was written, this block is measured again"),
    ],
)
def test_the_program_refuses_in_one_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, repository: Path, error: Exception, said: str
) -> None:
    given = dataclasses.asdict(bench.request)
    keys = (
        "workload",
        "stack",
        "factors",
        "seed",
        "runtimes",
        "control",
        "threads",
        "max_attempts",
        "timeout_seconds",
    )
    measuring = {name: given[name] for name in keys} | {
        "disturbance": given["disturbance"].model_dump(),
        "harness": "h",
        "variants": {"no-seccomp": {"base": "docker", "without": ["seccomp"]}},
    }
    asked: list[BlockRequest] = []

    def refuse(request: BlockRequest, output: Path) -> None:
        asked.append(request)
        assert output == bench.block
        raise error

    monkeypatch.setattr(measure, "measure_block", refuse)
    inputs = [
        bench.request.image,
        bench.request.rootfs,
        bench.request.venv,
        bench.request.dataset,
        bench.request.wheel,
    ]
    options = ["--study", "s", "--cell", "train-torch-fcn5", "--block", "1", "--output", str(bench.block)]
    arguments = [*options, "--measuring", json.dumps(measuring), "--input", *map(str, inputs)]
    monkeypatch.setattr(sys, "argv", ["measure_block.py", *arguments])
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(repository / "scripts/measure_block.py"), run_name="__main__")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert left.value.code == said
    # What the workflow passes on the command line arrives as it was meant.
    variants = {"no-seccomp": Variant(base="docker", label="no-seccomp", without=("seccomp",))}
    wanted = dataclasses.replace(bench.request, variants=variants)
    assert dataclasses.replace(asked[0], runtimes=tuple(asked[0].runtimes)) == wanted


def test_the_block_says_how_long_it_took(bench: Bench) -> None:
    bench.measure()
    seconds = measure.progress.measured_seconds(bench.block)
    assert seconds is not None
    assert 0 < seconds < 60


def test_the_file_is_readable_by_all_who_may_read_the_folder(bench: Bench) -> None:
    before = os.umask(0o022)
    try:
        bench.measure()
    finally:
        os.umask(before)
    assert bench.block.stat().st_mode & 0o777 == 0o644
