"""The worker protocol, held against a real worker process. `COMMANDS` takes any further implementation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fifos import heard
from tare.worker import process_facts

SRC = Path(__file__).resolve().parents[2] / "src"
#: -S: without site-packages, so that only the standard library is there
COMMANDS = {"python": [sys.executable, "-S", "-m", "tare.worker"]}

COUNTERS = {
    "busy_seconds",
    "idle_seconds",
    "steal_seconds",
    "softirq_seconds",
    "own_cpu_seconds",
    "swap_in_pages",
    "swap_out_pages",
    "throttled_seconds",
    "major_faults",
    "pressure_cpu_seconds",
    "pressure_io_seconds",
    "pressure_memory_seconds",
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> list[str]:
    return COMMANDS[request.param]


def body(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "protocol": 2,
        "run_id": "run-1",
        "family": "startup",
        "workload": "startup",
        "factors": {},
        "seed": 7,
        "threads": 1,
        "memory_bytes": 1 << 30,
        "data": None,
        "output": str(folder),
        "files": str(folder),
        "peer": None,
        "handshake": False,
        **changes,
    }


def start(command: list[str], folder: Path, request: object, path: str = "") -> subprocess.Popen[str]:
    (folder / "request.json").write_text(request if isinstance(request, str) else json.dumps(request))
    environment = {
        "PYTHONPATH": f"{SRC}:{path}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TARE_RUN_ID": "run-1",
        "LC_ALL": "C.UTF-8",
    }
    return subprocess.Popen(
        [*command, str(folder / "request.json")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], folder: Path) -> tuple[int, list[dict[str, Any]], str]:
    _, stderr = process.communicate(timeout=60)
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert not list(folder.glob("*.tmp"))
    return process.returncode, [json.loads(line) for line in lines], stderr


def run(
    command: list[str], folder: Path, request: object, path: str = ""
) -> tuple[int, list[dict[str, Any]], str]:
    return finish(start(command, folder, request, path), folder)


def test_events_of_an_empty_run(command: list[str], tmp_path: Path) -> None:
    process = start(command, tmp_path, body(tmp_path))
    status, events, stderr = finish(process, tmp_path)
    assert (status, stderr) == (0, "")
    assert [event["event"] for event in events] == ["start", "ready", "check", "fingerprint", "end"]
    begun, ready, check, fingerprint, end = events
    assert set(begun) == {"event", "ns", "pid"}
    assert begun["pid"] == process.pid
    assert set(ready) == {"event", "ns", "counters"}
    assert set(ready["counters"]) == set(end["counters"]) == COUNTERS
    assert check == {"event": "check", "ok": True, "reasons": [], "facts": {}}
    assert set(fingerprint) == {"event", "process", "software", "libraries"}
    totals = {"counters", "cpu_seconds", "max_rss_bytes", "device_read_bytes"}
    assert set(end) == {"event", "ns", "leaving_ns", *totals}
    assert begun["ns"] < ready["ns"] < end["ns"] < end["leaving_ns"]
    assert end["max_rss_bytes"] > 1 << 20
    assert 0 < ready["counters"]["own_cpu_seconds"] <= end["cpu_seconds"]


def test_fingerprint_has_the_whole_environment_and_the_mapped_files(
    command: list[str], tmp_path: Path
) -> None:
    _, events, _ = run(command, tmp_path, body(tmp_path))
    fingerprint = next(event for event in events if event["event"] == "fingerprint")
    process = fingerprint["process"]
    assert process["environment"]["TARE_RUN_ID"] == "run-1"
    assert set(process["environment"]) == {
        "PYTHONPATH",
        "PYTHONDONTWRITEBYTECODE",
        "TARE_RUN_ID",
        "LC_ALL",
    }
    assert process["uid"] == os.getuid()
    assert process["affinity"] == sorted(os.sched_getaffinity(0))
    assert process["namespaces"]["mnt"] == str(Path("/proc/self/ns/mnt").readlink())
    assert set(process["mounts"]) == {"/", "output", "data", "files"}
    assert process["mounts"]["data"] is None
    libraries = fingerprint["libraries"]
    assert libraries == sorted(set(libraries))
    assert any("/libc" in path or "/ld-" in path for path in libraries)


def test_a_variable_that_the_process_sets_itself_is_not_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch names a cache by the user when it is imported: on a host only, where the user has a name."""
    monkeypatch.setenv("SET_BY_A_FRAMEWORK", "1")
    recorded = process_facts.initial_environment()
    assert "SET_BY_A_FRAMEWORK" not in recorded
    assert recorded["PATH"]


def test_handshake_waits_for_go(command: list[str], tmp_path: Path) -> None:
    for name in ("ready", "go"):
        os.mkfifo(tmp_path / name)
    process = start(command, tmp_path, body(tmp_path, handshake=True))
    assert heard(tmp_path / "ready", process) == "ready\n"
    assert process.poll() is None
    with (tmp_path / "go").open("w") as go:
        go.write("go\n")
    status, events, _ = finish(process, tmp_path)
    assert status == 0
    kinds = [event["event"] for event in events]
    assert kinds == ["start", "ready", "go", "check", "fingerprint", "end"]
    assert events[1]["ns"] < events[2]["ns"] < events[-1]["ns"]


def test_handshake_given_up_is_an_error(command: list[str], tmp_path: Path) -> None:
    for name in ("ready", "go"):
        os.mkfifo(tmp_path / name)
    process = start(command, tmp_path, body(tmp_path, handshake=True))
    heard(tmp_path / "ready", process)
    with (tmp_path / "go").open("w"):
        pass
    status, events, _ = finish(process, tmp_path)
    assert status != 0
    assert [event["event"] for event in events] == ["start", "ready", "error"]
    assert events[-1]["kind"] == "HandshakeError"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"protocol": 1}, "version 2"),
        ({"family": "nosuch"}, "family: 'nosuch' is no module of this worker"),
        ({"files": "/nowhere"}, "files: /nowhere is no folder"),
        ({"workload": "startupp"}, "unknown in family startup; allowed: startup"),
        ({"factors": {"batch": 3}}, "needs exactly []"),
        ({"threads": 0}, "at least 1"),
        ({"threads": True}, "threads"),
        ({"seed": "7"}, "seed"),
        ({"extra": 1}, "extra"),
        ({"output": "/nowhere"}, "/nowhere is no folder"),
        ({"data": "/nowhere"}, "/nowhere is no folder"),
        ({"handshake": 1}, "handshake"),
    ],
)
def test_bad_request_is_refused_with_its_entry(
    command: list[str], tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    status, events, stderr = run(command, tmp_path, body(tmp_path, **changes))
    assert status not in (0, None)
    assert [event["event"] for event in events] == ["start", "error"]
    assert set(events[1]) == {"event", "kind", "message", "traceback"}
    assert says in events[1]["message"]
    assert says in stderr


def test_missing_key_and_unreadable_request(command: list[str], tmp_path: Path) -> None:
    request = body(tmp_path)
    del request["seed"]
    status, events, _ = run(command, tmp_path, request)
    assert status != 0
    assert "missing keys ['seed']" in events[1]["message"]
    status, events, _ = run(command, tmp_path, "{not json")
    assert status != 0
    assert "cannot be read as JSON" in events[1]["message"]


def test_without_a_request_it_says_how_it_is_called(command: list[str]) -> None:
    done = subprocess.run(
        command, env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "request.json" in done.stderr


FAKE = """
import os, sys
from tare.worker.task import Check, Task

class Fake(Task):
    epochs = 2
    timed = {timed}

    def __init__(self, request):
        self.events = os.path.join(request.output, "events.jsonl")
        self.ended = []

    def steps(self, epoch):
        for index in range(3):
            # Nothing may be written while a sample is still to come.
            assert not os.path.exists(self.events)
            {step}
            yield

    def end_epoch(self, epoch):
        self.ended.append(epoch)

    def samples(self):
        return [dict(metric="rate", phase="steady", epoch=None, index=0, value=2.5, unit="B/s")]

    def check(self):
        return Check({reasons}, {{"ended": self.ended, "loss": float("nan")}})

    def software(self):
        return {{"fake": "1"}}

    def libraries(self):
        return ["/zzz/child.so"]

def set_up(request):
    {set_up}
    return Fake(request)
"""

REGISTER = (
    "import runpy, tare.workloads.startup as family; "
    "family.WORKLOADS = (family.WORKLOADS[0]._replace(name='fake', adapter='fake_adapter'),); "
    "runpy.run_module('tare.worker', run_name='__main__', alter_sys=True)"
)


def fake(folder: Path, **parts: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run an adapter made of ``parts`` through the real worker."""
    given = {"timed": "True", "step": "pass", "reasons": "[]", "set_up": "pass", **parts}
    (folder / "fake_adapter.py").write_text(FAKE.format(**given))
    command = [sys.executable, "-S", "-c", REGISTER]
    return run(command, folder, body(folder, workload="fake"), path=str(folder))


def test_samples_of_timed_steps(tmp_path: Path) -> None:
    status, events, stderr = fake(tmp_path)
    assert (status, stderr) == (0, "")
    samples = [event for event in events if event["event"] == "sample"]
    steps, epochs = ("step_seconds",) * 3, ("epoch_seconds",)
    assert [(s["metric"], s["phase"], s["epoch"], s["index"]) for s in samples] == [
        *((name, "first", 0, i) for i, name in enumerate(steps)),
        *((name, "first", 0, 0) for name in epochs),
        *((name, "steady", 1, i) for i, name in enumerate(steps)),
        *((name, "steady", 1, 0) for name in epochs),
    ]
    assert all(isinstance(s["ns"], int) and s["ns"] > 0 for s in samples)
    for epoch in (0, 1):
        own = [s["ns"] for s in samples if s["epoch"] == epoch]
        assert own[-1] >= sum(own[:-1])
    assert all(
        {"device_read_bytes", "major_faults"} <= set(s) for s in samples if s["metric"] == "epoch_seconds"
    )
    check = next(event for event in events if event["event"] == "check")
    assert check["facts"] == {"ended": [0, 1], "loss": None}
    fingerprint = next(event for event in events if event["event"] == "fingerprint")
    assert fingerprint["software"] == {"fake": "1"}
    assert fingerprint["libraries"][-1] == "/zzz/child.so"


def test_a_wrapped_program_gives_its_own_samples(tmp_path: Path) -> None:
    status, events, _ = fake(tmp_path, timed="False")
    assert status == 0
    samples = [event for event in events if event["event"] == "sample"]
    assert samples == [
        {
            "event": "sample",
            "metric": "rate",
            "phase": "steady",
            "epoch": None,
            "index": 0,
            "value": 2.5,
            "unit": "B/s",
        }
    ]


#: a child that works for a moment and holds 64 MiB, then a grandchild that does the same
BUSY = "import time; x = bytearray(64 << 20)\nwhile time.process_time() < 0.2: pass"
CHILDREN = f"""
    import subprocess
    busy = {BUSY!r}
    if index == 0:
        subprocess.run([sys.executable, "-S", "-c", busy], check=True)
        nested = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', %r], check=True)" % busy
        subprocess.run([sys.executable, "-S", "-c", nested], check=True)
""".replace("\n", "\n        ")


def test_case_50_children_of_a_short_run_count(tmp_path: Path) -> None:
    """Two epochs of a step that leaves all its work to others: 4 × 0.2 s that a sampler would never see."""
    status, events, stderr = fake(tmp_path, step=CHILDREN)
    assert (status, stderr) == (0, "")
    ready, end = events[1], events[-1]
    assert end["cpu_seconds"] - ready["counters"]["own_cpu_seconds"] > 0.8
    assert end["counters"]["own_cpu_seconds"] - ready["counters"]["own_cpu_seconds"] > 0.8
    assert end["max_rss_bytes"] > 64 << 20


def test_a_failed_check_is_no_failure_of_the_worker(tmp_path: Path) -> None:
    status, events, _ = fake(tmp_path, reasons='["loss does not fall"]')
    assert status == 0
    check = next(event for event in events if event["event"] == "check")
    assert (check["ok"], check["reasons"]) == (False, ["loss does not fall"])
    assert events[-1]["event"] == "end"


@pytest.mark.parametrize(
    ("part", "code", "kind", "before"),
    [
        ("step", "if index == 1: raise OSError('disk gone')", "OSError", ["start", "ready"]),
        ("step", "os.environ['NOT_THERE']", "KeyError", ["start", "ready"]),
        ("set_up", "import torch", "ModuleNotFoundError", ["start"]),
        ("set_up", "sys.exit(0)", "SystemExit", ["start"]),
    ],
)
def test_a_failure_is_written_down(
    tmp_path: Path, part: str, code: str, kind: str, before: list[str]
) -> None:
    status, events, _ = fake(tmp_path, **{part: code})
    assert status == 1
    assert [event["event"] for event in events] == [*before, "error"]
    assert events[-1]["kind"] == kind
    assert "fake_adapter.py" in events[-1]["traceback"]
