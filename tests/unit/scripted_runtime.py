"""A runtime whose runs are played by functions, and a block request that stands on files made here.

The clock is the script's: a run is asked for at ``REQUESTED`` and ends at ``EXITED``; its events say when they were.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tare.config import Disturbance
from tare.ground import BlockRequest
from tare.runtimes.base import LaunchSpec, Outcome, RunRequest, Stack, Unavailable

SECOND = 1_000_000_000
REQUESTED, EXITED = 100 * SECOND, 110 * SECOND
QUIET = {
    "busy_seconds": 50.0,
    "own_cpu_seconds": 1.0,
    "steal_seconds": 0.0,
    "swap_in_pages": 7,
    "swap_out_pages": 9,
}
FINISHED = Outcome(0, REQUESTED, EXITED)

Event = Mapping[str, Any]


class Played:
    """What a script sees of its run: the folder, the request, and whether it was told to end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.request: dict[str, Any] = json.loads((folder / "request.json").read_text())
        self.killed = threading.Event()

    def write(self, events: Iterable[Event]) -> None:
        """Leave these events, as a worker does at its end."""
        text = "".join(json.dumps(event) + "\n" for event in events)
        (self.folder / "events.jsonl").write_text(text)

    def shake_hands(self) -> None:
        """Say ready and wait for the go."""
        (self.folder / "ready").write_text("ready\n")
        with (self.folder / "go").open() as go:
            assert go.readline() == "go\n"


Script = Callable[[Played], Outcome | None]


def events(**changes: Any) -> list[dict[str, Any]]:
    """Return the events of a quiet training run of 2 epochs; ``changes`` overwrite entries of the event they name."""
    busy = {**QUIET, "busy_seconds": 58.0, "own_cpu_seconds": 9.0}
    made: dict[str, dict[str, Any]] = {
        "start": {"ns": REQUESTED + SECOND // 2, "pid": 7},
        "ready": {"ns": REQUESTED + 2 * SECOND, "counters": QUIET},
        "first": epoch("first", 0, 3 * SECOND),
        "steady": epoch("steady", 1, 2 * SECOND),
        "check": {"ok": True, "reasons": [], "facts": {"bytes_expected": 1000, "loss_hex": []}},
        "fingerprint": {"process": {"effective_cpus": 2}, "software": {"torch": "1"}, "libraries": []},
        "end": {
            "ns": REQUESTED + 9 * SECOND,
            "counters": busy,
            "cpu_seconds": 9.5,
            "max_rss_bytes": 1 << 20,
            "device_read_bytes": 4096,
        },
    }
    for name, change in changes.items():
        made[name] |= change
    kinds = {"first": "sample", "steady": "sample"}
    return [{"event": kinds.get(name, name), **event} for name, event in made.items()]


def epoch(phase: str, number: int, ns: int) -> dict[str, Any]:
    """Return the sample of an epoch that read all its data from the device."""
    return {
        "metric": "epoch_seconds",
        "phase": phase,
        "epoch": number,
        "index": 0,
        "ns": ns,
        "device_read_bytes": 1000,
        "major_faults": 0,
    }


def play(outcome: Outcome = FINISHED, **changes: Any) -> Script:
    """Return a script that shakes hands where asked, leaves ``events(**changes)`` and ends with ``outcome``."""

    def script(played: Played) -> Outcome:
        if played.request["handshake"]:
            played.shake_hands()
        played.write(events(**changes))
        return outcome

    return script


class _Running:
    """A script in a thread; its end makes ``exit_fd`` readable."""

    def __init__(self, script: Script, folder: Path) -> None:
        self.exit_fd, self._signal = os.pipe()
        self._played = Played(folder)
        self._outcome: Outcome | None = None
        self._thread = threading.Thread(target=self._run, args=(script,))
        self._thread.start()

    def _run(self, script: Script) -> None:
        try:
            self._outcome = script(self._played) or FINISHED
        finally:
            os.write(self._signal, b".")

    def wait(self, seconds: float | None = None) -> Outcome | None:
        if seconds != 0:
            self._thread.join(seconds)
        return self._outcome

    def kill(self) -> None:
        self._played.killed.set()

    def close(self) -> None:
        self._thread.join()
        if self.exit_fd >= 0:
            os.close(self.exit_fd)
            os.close(self._signal)
        self.exit_fd = -1


class Scripted:
    """A runtime that plays one script after the other, the last one again and again."""

    def __init__(self, name: str, *scripts: Script, unavailable: Unavailable | None = None) -> None:
        self.name = name
        self.scripts = list(scripts)
        self.why = unavailable
        self.requests: list[RunRequest] = []

    def unavailable(self, stack: Stack) -> Unavailable | None:  # noqa: ARG002
        return self.why

    def specify(self, request: RunRequest) -> LaunchSpec:
        folder = str(request.output)
        data = None if request.data is None else str(request.data)
        return LaunchSpec(
            self.name,
            "process",
            ("worker",),
            dict(request.environment),
            folder,
            folder,
            data,
            f"{folder}/files",
            "loopback",
        )

    def start(self, spec: LaunchSpec) -> _Running:
        self.requests.append(
            RunRequest("", "", Stack(""), Path(spec.output), None, "", spec.environment, 0, 0, "")
        )
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        return _Running(script, Path(spec.output))


def software(folder: Path, **forms: Mapping[str, Any]) -> dict[str, Path]:
    """Write the status files image, rootfs, venv and dataset and return them; ``forms`` overwrite their entries."""
    (folder / "data/files").mkdir(parents=True, exist_ok=True)
    (folder / "data/files/images").write_bytes(b"x" * 1000)
    made: dict[str, dict[str, Any]] = {
        "image": {
            "status": "ok",
            "reasons": [],
            "digest": "sha256:d",
            "image_id": "sha256:i",
            "lock_sha256": "l",
        },
        "rootfs": {"status": "ok", "reasons": [], "digest": "sha256:d"},
        "venv": {"status": "ok", "reasons": [], "python": "/venv/bin/python", "lock_sha256": "l"},
        "dataset": {"status": "ok", "reasons": [], "sha256": "s", "files": [{"path": "files/images"}]},
    }
    paths = {}
    for form, status in made.items():
        paths[form] = folder / ("data/dataset.json" if form == "dataset" else f"{form}.json")
        paths[form].write_text(json.dumps(status | dict(forms.get(form, {}))))
    return paths


def block_request(folder: Path, **changes: Any) -> BlockRequest:
    """Return a request for block 1 of a training cell, on the files of ``software``."""
    folder.mkdir(exist_ok=True)
    wheel = folder / "worker.whl"
    wheel.write_bytes(b"wheel")
    request = BlockRequest(
        study="s",
        cell="train-torch-fcn5",
        workload="train-torch-fcn5",
        stack="torch",
        factors={"batch": 512, "samples": 2048, "epochs": 2, "workers": 0, "cache": "as-is"},
        block=1,
        seed=3,
        runtimes=("host", "docker"),
        control="host",
        threads=2,
        max_attempts=2,
        timeout_seconds=30,
        disturbance=Disturbance(),
        wheel=wheel,
        **software(folder),
    )
    return dataclasses.replace(request, **changes)
