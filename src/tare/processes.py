"""Finding and ending the processes of a run, wherever they moved: by the TARE_* variables they were started with."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

RUN_ID = "TARE_RUN_ID"
OWNER = "TARE_OWNER"


def marks(pid: int, proc: Path = Path("/proc")) -> Mapping[str, str]:
    """Return the TARE_* variables in a process's initial environment; empty when there are none or it is not told."""
    try:
        raw = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item.startswith(b"TARE_"))
    return {name.decode(): value.decode("utf-8", "replace") for name, _, value in pairs}


def find(wanted: Callable[[Mapping[str, str]], bool], proc: Path = Path("/proc")) -> Iterator[int]:
    """Yield the processes (never this one) that belong to a run and whose TARE_* variables are ``wanted``."""
    for entry in proc.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            found = marks(int(entry.name), proc)
            if RUN_ID in found and wanted(found):
                yield int(entry.name)


def end(wanted: Callable[[Mapping[str, str]], bool], seconds: float = 10.0) -> list[int]:
    """Kill every process that ``find`` yields, and those they start meanwhile; return the numbers killed.

    Returns when they are gone. Raises ``TimeoutError`` when one is still there after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    killed: list[int] = []
    while found := [pid for pid in find(wanted) if _kill(pid, wanted, deadline)]:
        killed += found
    return killed


def _kill(pid: int, wanted: Callable[[Mapping[str, str]], bool], deadline: float) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # Asked again through the handle's lifetime: the number may have gone to another process in between.
        found = marks(pid)
        if RUN_ID not in found or not wanted(found):
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError(f"process {pid} of run {found[RUN_ID]} does not end, though killed")
        return True
    finally:
        os.close(handle)
