"""The mount table (/proc/self/mountinfo, see proc_pid_mountinfo(5)) and the mount a path lies on."""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Optional


class Mount(NamedTuple):
    """One line of the mount table."""

    device: str  # "major:minor"
    root: str  # the folder of the file system that is mounted
    point: str
    options: str
    type: str
    source: str
    super_options: str


def parse_mountinfo(text: str) -> List[Mount]:
    """Return the mounts of a mount table's text, in its order; lines that are no mounts are left out."""
    mounts = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if separator and len(fields) >= 6 and len(tail) >= 3:
            root, point = _unescape(fields[3]), _unescape(fields[4])
            source = _unescape(tail[1])
            mounts.append(Mount(fields[2], root, point, fields[5], tail[0], source, _unescape(tail[2])))
    return mounts


def read_mounts(root: str = "/") -> List[Mount]:
    """Return this process's mounts; empty where /proc is not mounted."""
    try:
        with open(
            os.path.join(root, "proc/self/mountinfo"), encoding="utf-8", errors="surrogateescape"
        ) as file:
            return parse_mountinfo(file.read())
    except OSError:
        return []


def mount_of(path: str, mounts: List[Mount]) -> Optional[Mount]:
    """Return the mount that absolute ``path`` (links resolved by the caller) lies on, or None.

    Of several mounts on one point the last hides the others.
    """
    found: Optional[Mount] = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def mount_at(path: "os.PathLike[str] | str", root: str = "/") -> Optional[Mount]:
    """Return the mount of this process that ``path`` lies on, its links resolved, or None when that is not told."""
    return mount_of(os.path.realpath(path), read_mounts(root))


def _unescape(text: str) -> str:
    # Spaces, tabs, newlines and backslashes are written as three octal digits.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
