"""Deleting folders without following a mount: a bind-mounted /dev below a folder would lose the machine's devices.

Every recursive deletion of the project goes through ``remove_tree``.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOUNTINFO = Path("/proc/self/mountinfo")


class MountedBelowError(Exception):
    """A path that must not be deleted: something is mounted at it or below it."""


def mount_points(mountinfo: str) -> list[Path]:
    """Return the mount points that a text in the format of /proc/self/mountinfo lists, in its order.

    The fifth field is the mount point; blanks, tabs, newlines and backslashes in it are octal escapes (proc(5)).
    """
    points = []
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) >= 5:
            points.append(Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])))
    return points


def mounted_below(path: Path, mountinfo: Path = MOUNTINFO) -> list[Path]:
    """Return the mount points at or below ``path`` (symbolic links in its parents resolved)."""
    real = Path(os.path.realpath(path))
    text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    return [point for point in mount_points(text) if point == real or real in point.parents]


def remove_tree(path: Path, mountinfo: Path = MOUNTINFO) -> None:
    """Delete a file, a symbolic link (never its target) or a folder with all below it; a missing path is no error.

    Raises ``MountedBelowError``, with nothing deleted, when anything is mounted at or below ``path``.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    mounted = mounted_below(path, mountinfo)
    if mounted:
        raise MountedBelowError(
            f"{path} is not deleted: mounted at or below it: {', '.join(map(str, mounted))}. "
            f"Unmount first (umount {mounted[-1]}), then try again."
        )
    # Python 3.12 renamed onerror to onexc; 3.11 is what the pipeline runs on.
    shutil.rmtree(path, onerror=_make_writable_and_retry)


def _make_writable_and_retry(function: Callable[..., Any], name: str, error: Any) -> None:
    """Root filesystems hold folders without write permission: give it, then try once more."""
    if isinstance(error[1], FileNotFoundError):
        return
    if not isinstance(error[1], PermissionError):
        raise error[1]
    for place in (Path(name).parent, Path(name)):
        if place.is_dir() and not place.is_symlink():
            place.chmod(stat.S_IRWXU)
    if function in (os.open, os.scandir, os.listdir):
        shutil.rmtree(name)
    else:
        function(name)
