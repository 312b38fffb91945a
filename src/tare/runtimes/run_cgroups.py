"""The control groups that an OCI runtime makes for our runs: their names, their removal, and what dead runs left.

A run's group is ``/tare/<run id>@<owner>`` in every hierarchy (version 1) or in the one (version 2): whose it was
can be told when its measuring process is dead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tare.identity import is_dead
from tare.worker.mounts import read_mounts

PARENT = "tare"
_SECONDS = 5.0


def group_of(run_id: str, owner: str) -> str:
    """Return the cgroupsPath of a run."""
    return f"/{PARENT}/{run_id}@{owner}"


def hierarchies() -> list[Path]:
    """Return the mount points of every control group hierarchy of this machine, of both versions."""
    return [Path(mount.point) for mount in read_mounts() if mount.type in ("cgroup", "cgroup2")]


def remove(group: str, seconds: float = _SECONDS) -> None:
    """Remove a run's groups and those below them, and the parent when it is empty; absent ones are no error.

    Their processes have been ended; the kernel takes a moment to forget them. Raises ``OSError`` after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    for hierarchy in hierarchies():
        for folder in _deepest_first(hierarchy / group.lstrip("/")):
            _remove_folder(folder, deadline)
        with suppress(OSError):
            (hierarchy / PARENT).rmdir()


def _deepest_first(folder: Path) -> list[Path]:
    below = [path for path in folder.rglob("*") if path.is_dir()] if folder.is_dir() else []
    return sorted([*below, folder], key=lambda path: len(path.parts), reverse=True)


def _remove_folder(folder: Path, deadline: float) -> None:
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def left_over() -> Iterator[str]:
    """Yield the groups (as ``group_of``) of runs whose measuring process is dead, each once."""
    names = {path.name for hierarchy in hierarchies() for path in (hierarchy / PARENT).glob("*@*")}
    for name in sorted(names):
        if is_dead(name.partition("@")[2]):
            yield f"/{PARENT}/{name}"
