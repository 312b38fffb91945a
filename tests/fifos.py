"""Waiting for the other end of a FIFO, with a bound."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path
from typing import Any

LONGEST_MILLISECONDS = 60_000


def heard(fifo: Path, process: subprocess.Popen[Any] | None = None) -> str:
    """Return what is written into a FIFO; when nothing comes or ``process`` ends first, a failure and not a hang."""
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    waited_for = [descriptor, *([os.pidfd_open(process.pid)] if process else [])]
    try:
        poll = select.poll()
        for one in waited_for:
            poll.register(one, select.POLLIN)
        assert descriptor in dict(poll.poll(LONGEST_MILLISECONDS)), f"nothing was written into {fifo}"
        return os.read(descriptor, 100).decode()
    finally:
        for one in waited_for:
            os.close(one)
