"""One run against a real but tiny child process: handshake, exit, time-out, a workflow that dies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tare.run import WorkflowGoneError, execute, open_workflow, prepare_folder
from tare.runtimes.base import LaunchSpec, Outcome, RunRequest, Stack, Unavailable
from tare.runtimes.process import tail

SHAKES_HANDS = "echo ready > ready; read word < go; echo $word > heard; exit 3"
SLEEPS = "exec sleep 100"


class Child:
    """A run that is a shell command: what a starter returns."""

    def __init__(self, command: str, folder: Path) -> None:
        self.requested = time.monotonic_ns()
        self.process = subprocess.Popen(["/bin/sh", "-c", command], cwd=folder)
        self.exit_fd = os.pidfd_open(self.process.pid)
        self.closed = False

    def wait(self, seconds: float | None = None) -> Outcome | None:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return Outcome(code, self.requested, time.monotonic_ns())

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        if not self.closed:
            self.process.wait()
            os.close(self.exit_fd)
        self.closed = True


class Shell:
    """A runtime that starts a shell command."""

    name = "shell"

    def __init__(self, command: str) -> None:
        self.command = command
        self.started: list[Child] = []

    def unavailable(self, stack: Stack) -> Unavailable | None:  # noqa: ARG002
        return None

    def specify(self, request: RunRequest) -> LaunchSpec:
        return LaunchSpec(
            "shell", "process", (), {}, *[str(request.output)] * 2, None, str(request.output), "loopback"
        )

    def start(self, spec: LaunchSpec) -> Child:
        self.started.append(Child(self.command, Path(spec.cwd)))
        return self.started[-1]


@pytest.fixture
def request_(tmp_path: Path) -> RunRequest:
    wheel = tmp_path / "worker.whl"
    wheel.write_bytes(b"wheel")
    request = RunRequest("id", "s", Stack("x"), tmp_path / "run", None, "worker.whl", {}, 0, 0, "owner")
    native = tmp_path / "program"
    native.write_bytes(b"\x7fELF")
    prepare_folder(request, wheel, {"handshake": True}, native)
    return request


def test_the_folder_holds_wheel_request_and_fifos(request_: RunRequest) -> None:
    assert sorted(path.name for path in request_.output.iterdir()) == [
        "files",
        "go",
        "program",
        "ready",
        "request.json",
        "worker.whl",
    ]
    assert (request_.output / "request.json").read_text() == '{"handshake": true}'
    assert (request_.output / "ready").is_fifo()
    assert (request_.output / "files").is_dir()
    assert os.access(request_.output / "program", os.X_OK)
    assert request_.output.stat().st_mode & 0o777 == 0o700


def test_the_cache_is_set_between_ready_and_go(request_: RunRequest) -> None:
    runtime, calls = Shell(SHAKES_HANDS), []

    def on_ready() -> None:
        calls.append((request_.output / "heard").exists())

    ended = execute(runtime, request_, handshake=True, on_ready=on_ready, timeout_seconds=20)
    assert calls == [False]
    assert (request_.output / "heard").read_text() == "go\n"
    assert (ended.outcome.exit_code, ended.timed_out) == (3, False)
    assert runtime.started[0].closed


def test_a_run_that_dies_before_ready_does_not_block(request_: RunRequest) -> None:
    ended = execute(
        Shell("exit 9"),
        request_,
        handshake=True,
        on_ready=lambda: pytest.fail("was ready"),
        timeout_seconds=20,
    )
    assert ended.outcome.exit_code == 9


def test_a_hanging_run_is_ended_and_says_so(request_: RunRequest) -> None:
    runtime = Shell(SLEEPS)
    ended = execute(runtime, request_, handshake=True, on_ready=lambda: None, timeout_seconds=0.2)
    assert ended.timed_out
    assert ended.outcome.exit_code == -9
    assert runtime.started[0].process.poll() == -9


def test_the_death_of_the_workflow_ends_the_run(request_: RunRequest) -> None:
    workflow = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    descriptor = open_workflow(str(workflow.pid))
    runtime = Shell(SLEEPS)

    def kill_workflow() -> Child:
        child = Shell.start(runtime, runtime.specify(request_))
        workflow.kill()
        return child

    runtime.start = lambda _: kill_workflow()  # type: ignore[method-assign]
    with pytest.raises(WorkflowGoneError):
        execute(
            runtime,
            request_,
            handshake=False,
            on_ready=lambda: None,
            timeout_seconds=30,
            workflow_fd=descriptor,
        )
    assert runtime.started[0].process.poll() == -9
    workflow.communicate()
    assert descriptor is not None
    os.close(descriptor)
    with pytest.raises(WorkflowGoneError):
        open_workflow(str(workflow.pid))
    assert open_workflow(None) is None


def test_an_exception_while_the_cache_is_set_ends_the_run(request_: RunRequest) -> None:
    runtime = Shell("echo ready > ready; " + SLEEPS)

    def fail() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        execute(runtime, request_, handshake=True, on_ready=fail, timeout_seconds=30)
    assert runtime.started[0].process.poll() == -9


def test_the_tail_is_one_line_and_short(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(b"\xff first\n\n" + b"x" * 5000 + b"\nlast words\n")
    assert tail(tmp_path / "e", 40).endswith("x | last words")
    assert len(tail(tmp_path / "e", 40)) == 40
    assert tail(tmp_path / "absent") == ""
