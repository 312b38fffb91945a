"""One run: its folder, the launch, the handshake in which the page cache is set, and the wait for its end."""

from __future__ import annotations

import json
import os
import select
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare import signals
from tare.runtimes.base import FILES, LaunchSpec, Outcome, Running, RunRequest, RuntimeClass
from tare.runtimes.process import tail

READY, GO = "ready", "go"
#: pid of the Snakemake process that asked for a measurement, set by the workflow
WORKFLOW_VARIABLE = "TARE_WORKFLOW_PID"


class WorkflowGoneError(RuntimeError):
    """The Snakemake that asked for this measurement has died: nobody will read the result."""


@dataclass(frozen=True)
class Ended:
    """A run that was started and has ended. ``timed_out``: it was ended by us after the time-out."""

    outcome: Outcome
    spec: LaunchSpec
    timed_out: bool


def prepare_folder(
    request: RunRequest, wheel: Path, body: Mapping[str, Any], native: Path | None = None
) -> None:
    """Fill the run's output folder: worker wheel, request.json, the workload's native program, folder of test files.

    With a handshake also the two FIFOs.
    """
    request.output.mkdir(parents=True)
    request.output.chmod(0o700)
    (request.output / FILES).mkdir()
    if native is not None:
        shutil.copyfile(native, request.output / native.name)
        (request.output / native.name).chmod(0o755)
    shutil.copyfile(wheel, request.output / request.worker_wheel)
    (request.output / "request.json").write_text(json.dumps(body, sort_keys=True), encoding="utf-8")
    if body["handshake"]:
        for name in (READY, GO):
            os.mkfifo(request.output / name, 0o600)


def execute(
    runtime: RuntimeClass,
    request: RunRequest,
    *,
    handshake: bool,
    on_ready: Callable[[], None],
    timeout_seconds: float,
    workflow_fd: int | None = None,
) -> Ended:
    """Start the run and wait for its end; ``on_ready`` is called between ``ready`` and ``go``.

    Raises ``WorkflowGoneError`` when ``workflow_fd`` (a pidfd) says that the workflow died; the run is ended first.
    Whatever is raised here, the run has ended and its descriptors are closed.
    """
    spec = runtime.specify(request)
    deadline = time.monotonic() + timeout_seconds
    with _fifos(request.output, handshake) as fifos:
        running: Running | None = None
        try:
            with signals.held_back():  # between its start and the name it gets here a run would be nobody's
                running = runtime.start(spec)
            waiting = _Waiting(running, deadline, workflow_fd)
            if fifos and waiting.until_readable(fifos[0]):
                on_ready()
                os.write(fifos[1], b"go\n")
            waiting.until_readable(running.exit_fd)
            outcome = running.wait(0 if waiting.timed_out else 30)
            if outcome is None:
                running.kill()
                outcome = running.wait(30)
            if outcome is None:
                now = time.monotonic_ns()
                outcome = Outcome(-1, now, now, "the run could not be ended within 30 s")
            return Ended(outcome, spec, waiting.timed_out)
        finally:
            if running is not None:
                running.kill()
                running.close()


@contextmanager
def _fifos(folder: Path, handshake: bool) -> Iterator[tuple[int, int] | None]:
    """Open both FIFOs read-write: Linux lets that never block, whoever comes first."""
    if not handshake:
        yield None
        return
    descriptors: list[int] = []
    try:
        for name in (READY, GO):
            descriptors.append(os.open(folder / name, os.O_RDWR | os.O_CLOEXEC))
        yield descriptors[0], descriptors[1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


class _Waiting:
    """Waits for one of: what is asked for, the run's exit, the time-out, the workflow's death."""

    def __init__(self, running: Running, deadline: float, workflow_fd: int | None) -> None:
        self._exit_fd = running.exit_fd
        self._deadline = deadline
        self._workflow_fd = workflow_fd
        self.timed_out = False

    def until_readable(self, descriptor: int) -> bool:
        """Return True when ``descriptor`` is readable, False on exit or time-out."""
        poll = select.poll()
        for one in {descriptor, self._exit_fd, *([] if self._workflow_fd is None else [self._workflow_fd])}:
            poll.register(one, select.POLLIN)
        left = max(0.0, self._deadline - time.monotonic())
        readable = {fd for fd, _ in poll.poll(left * 1000)}
        if self._workflow_fd is not None and self._workflow_fd in readable:
            raise WorkflowGoneError("the workflow that asked for this measurement has died")
        self.timed_out = self.timed_out or not readable
        return descriptor in readable


def open_workflow(pid_text: str | None) -> int | None:
    """Return a pidfd of the workflow, None when none is named; raises ``WorkflowGoneError`` when it is dead."""
    if not pid_text:
        return None
    try:
        return os.pidfd_open(int(pid_text))
    except ProcessLookupError:
        raise WorkflowGoneError("the workflow that asked for this measurement has died") from None


def exit_reasons(ended: Ended, folder: Path) -> list[str]:
    """Return what is bad about the end of a run: time-out, memory, status, with its last words from ``folder``."""
    outcome = ended.outcome
    reasons = []
    if ended.timed_out:
        reasons.append("time-out: the run was ended by Tare (run_timeout_seconds)")
    if outcome.oom_killed:
        reasons.append("out of memory: the kernel killed the run")
    if outcome.exit_code != 0 or outcome.detail:
        said = tail(folder / "stderr.txt")
        reasons.append(
            f"exit status {outcome.exit_code}"
            + (f" ({outcome.detail})" if outcome.detail else "")
            + (f"; last words: {said}" if said else "")
        )
    return reasons
