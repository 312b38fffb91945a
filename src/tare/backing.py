"""What lies under a run's test files: the device, file system and mount options that their bytes end up on.

A container's own layer is an overlay with a device of its own making; its bytes lie where its upper folder does.
The worker names that folder (by its path outside), and this side's mount table says what it lies on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tare.worker.mounts import Mount, mount_of, read_mounts
from tare.workloads.declaration import Workload

#: file systems that keep their bytes in memory: nothing on them says anything about a disk
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_FIELDS = ("device", "type", "options", "super_options")


def backing(process: Mapping[str, Any], mounts: Sequence[Mount] | None = None) -> dict[str, str] | None:
    """Return device ("major:minor"), type, options and super_options under the test files; None when not known.

    ``process`` is the worker's (``tare.worker.process_facts``); ``mounts`` this side's mount table by default.
    """
    found = (process.get("mounts") or {}).get("files")
    if found is None:
        return None
    if found["type"] != "overlay":
        return {name: found[name] for name in _FIELDS}
    upper = process.get("files_upper") or ""
    table = read_mounts() if mounts is None else list(mounts)
    mount = mount_of(upper, table) if upper.startswith("/") else None
    return None if mount is None else {name: getattr(mount, name) for name in _FIELDS}


def reasons(workload: Workload, found: Mapping[str, str] | None) -> list[str]:
    """Return why ``found`` is no ground for the numbers of ``workload``; empty for one without test files."""
    if "location" not in workload.factors:
        return []
    if found is None:
        return [
            "the device under the test files is not known (the layer's upper folder is on no mount seen here): "
            "choose location=bind or location=volume"
        ]
    if found["type"] in MEMORY_FILE_SYSTEMS:
        return [
            f"the test files lie on {found['type']}, which is memory, no disk; allowed: a file system on a device: "
            "put the results (location=bind) or the engine's data folder (layer, volume) on a disk"
        ]
    return []
