"""Where this process stands in the control group tree, versions 1 and 2, as far as it is visible from inside.

``root`` is a prefix for every path read, so that recorded trees can stand in for the machine.
"""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from tare.worker.mounts import Mount, read_mounts


def read_text(path: str) -> Optional[str]:
    """Return the text of a file of the kernel, or None where it is absent or refused."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def under(root: str, path: str) -> str:
    """Return absolute ``path`` below ``root``."""
    return os.path.join(root, path.lstrip("/"))


def membership(root: str = "/") -> Dict[str, str]:
    """Return controller → cgroup path of this process; version 2 has the controller name ``""``."""
    text = read_text(under(root, "/proc/self/cgroup")) or ""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                found[controller] = parts[2]
    return found


def folders(controller: str, root: str = "/") -> Tuple[int, List[str]]:
    """Return (version, folders) of ``controller``: the own group first, then each visible parent.

    The list is empty where no cgroup file system is mounted, e.g. in a bare chroot; limits are then unknown.
    """
    groups = membership(root)
    version = 1 if controller in groups else 2
    path = groups.get(controller if version == 1 else "")
    mount = _mount(controller, version, root)
    if path is None or mount is None:
        return version, []
    inside = _relative(path, mount.root)
    names = [name for name in inside.split("/") if name]
    chain = ["/".join([mount.point.rstrip("/"), *names[:depth]]) for depth in range(len(names), -1, -1)]
    return version, [under(root, folder) for folder in chain]


def _mount(controller: str, version: int, root: str) -> Optional[Mount]:
    for mount in read_mounts(root):
        if version == 2 and mount.type == "cgroup2":
            return mount
        if version == 1 and mount.type == "cgroup" and controller in mount.super_options.split(","):
            return mount
    return None


def _relative(path: str, mount_root: str) -> str:
    # A container sees its own group mounted as root of the hierarchy, but may read the machine's path of it.
    base = mount_root.rstrip("/")
    if path == base or path.startswith(base + "/"):
        return path[len(base) :]
    return ""
