"""Starting a run as a child process: one path for `host` and `chroot`, so that both start equally.

The child is forked, prepared in Python between fork and exec (the chroot's mounts, the user), and executed.
Standard input is empty, output goes to files, and the child dies with the thread that started it: start runs
from a thread that outlives them.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tare import processes
from tare.runtimes.base import LaunchError, LaunchSpec, Outcome

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


def start_process(
    spec: LaunchSpec,
    prepare: Callable[[], None] | None = None,
    running: type[ProcessRunning] | None = None,
) -> ProcessRunning:
    """Start ``spec``; ``prepare`` runs in the child, before it becomes the run's user and changes folder.

    ``running``: the class of what is returned, made from the child, ``spec`` and the time of the request.
    Raises ``LaunchError`` with the step that failed.
    """
    requested_ns = time.monotonic_ns()
    report_read, report_write = os.pipe()
    try:
        popen = _spawn(spec, prepare, report_write)
    except (OSError, subprocess.SubprocessError) as error:
        os.close(report_write)
        report_write = -1
        told = os.read(report_read, 4096).decode("utf-8", "replace")
        raise LaunchError(f"{spec.runtime}: cannot start {spec.argv[0]}: {told or error}") from None
    finally:
        os.close(report_read)
        if report_write >= 0:
            os.close(report_write)
    return (running or ProcessRunning)(popen, spec, requested_ns)


def _spawn(spec: LaunchSpec, prepare: Callable[[], None] | None, report: int) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def between_fork_and_exec() -> None:
        try:
            if prepare is not None:
                prepare()
            become_user(spec.options["uid"], spec.options["gid"])
            os.chdir(spec.cwd)
            _die_with(parent)
        except BaseException as error:
            os.write(report, str(error).encode()[:4096])
            raise

    with Path(spec.options["stdout"]).open("wb") as out, Path(spec.options["stderr"]).open("wb") as err:
        for file in (out, err):
            if os.geteuid() == 0:
                os.fchown(file.fileno(), spec.options["uid"], spec.options["gid"])
        return subprocess.Popen(
            spec.argv,
            env=spec.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            umask=0o022,  # what a container gets
            preexec_fn=between_fork_and_exec,
        )


def become_user(uid: int, gid: int) -> None:
    """Take on the run's user and group without supplementary groups, as a container with numeric ids has."""
    if os.geteuid() == 0 and os.getgroups():  # a user namespace forbids the call, needed or not
        os.setgroups([])
    if (os.getuid(), os.getgid()) != (uid, gid):
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. After the change of user, which would undo it."""
    if _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        raise ProcessLookupError("the measuring process ended while it started the run")


class ProcessRunning:
    """A run that is a child process (see ``Running``)."""

    def __init__(self, popen: subprocess.Popen[bytes], spec: LaunchSpec, requested_ns: int) -> None:
        self._popen = popen
        self._run_id = spec.environment[processes.RUN_ID]
        self._requested_ns = requested_ns
        self._oom_before = oom_kills()
        self._outcome: Outcome | None = None
        self.exit_fd = os.pidfd_open(popen.pid)

    def wait(self, seconds: float | None = None) -> Outcome | None:
        """Return how the run ended, or None when ``seconds`` pass first."""
        if self._outcome is None and _exited(self.exit_fd, seconds):
            self._outcome = self._judge(self._popen.wait(), time.monotonic_ns())
        return self._outcome

    def _judge(self, code: int, exited_ns: int) -> Outcome:
        if code >= 0:
            detail = "" if code == 0 else f"ended with status {code}"
            return Outcome(code, self._requested_ns, exited_ns, detail)
        oom = -code == signal.SIGKILL and oom_kills() > self._oom_before
        detail = f"ended by {signal_name(-code)}" + (": the kernel ran out of memory" if oom else "")
        return Outcome(128 - code, self._requested_ns, exited_ns, detail, oom)

    def kill(self) -> None:
        """End the run and everything it started, sessions of their own included."""
        if self._outcome is None and not _exited(self.exit_fd, 0):
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        processes.end(lambda marks: marks[processes.RUN_ID] == self._run_id)

    def close(self) -> None:
        """End what is left of the run and give back its descriptors."""
        if self.exit_fd < 0:
            return
        self.kill()
        self.wait()
        os.close(self.exit_fd)
        self.exit_fd = -1


def _exited(pidfd: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ending(code: int, memory_limit_reached: bool) -> list[str]:
    """Return what a container's end says to a person; ``code`` is its exit status, 128 + n after signal n."""
    found = []
    if code != 0:
        found.append(f"ended by {signal_name(code - 128)}" if code > 128 else f"ended with status {code}")
    if memory_limit_reached:
        found.append("its memory limit was reached")
    return found


def tail(path: Path, characters: int = 600) -> str:
    """Return the last characters of a text file on one line; empty when there is none."""
    with suppress(OSError):
        text = path.read_bytes()[-4 * characters :].decode("utf-8", "replace")
        return " | ".join(line.strip() for line in text.splitlines() if line.strip())[-characters:]
    return ""


def oom_kills() -> int:
    """Return how many processes this kernel has killed for want of memory (``oom_kill`` of /proc/vmstat)."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
