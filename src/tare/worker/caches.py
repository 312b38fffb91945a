"""How large the last-level caches are that the CPUs of this process can fill."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, Optional, Tuple

from tare.worker.cgroup import read_text, under

#: what is assumed where /sys tells nothing
FALLBACK_BYTES = 32 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_bytes(root: str = "/", cpus: Optional[Iterable[int]] = None) -> int:
    """Return the bytes of all last-level caches together that belong to ``cpus`` (None: this process's affinity).

    Each cache counts once, however many of the CPUs share it. ``root`` is the prefix of the /sys that is read;
    where it knows no cache, 32 MiB are assumed.
    """
    found: Dict[Tuple[str, str], int] = {}
    for cpu in sorted(os.sched_getaffinity(0)) if cpus is None else cpus:
        cache = _last_level(under(root, "/sys/devices/system/cpu/cpu%d/cache" % cpu))
        if cache is not None:
            level, shared, size = cache
            found[(level, shared or str(cpu))] = size
    return sum(found.values()) or FALLBACK_BYTES


def _last_level(folder: str) -> Optional[Tuple[str, str, int]]:
    """Return level, sharing CPUs and bytes of the highest cache below a CPU's folder; None when it has none."""
    try:
        entries = sorted(name for name in os.listdir(folder) if re.fullmatch(r"index\d+", name))
    except OSError:
        return None
    caches = []
    for entry in entries:
        level, shared, size, kind = (
            (read_text(os.path.join(folder, entry, name)) or "").strip()
            for name in ("level", "shared_cpu_list", "size", "type")
        )
        number = re.fullmatch(r"(\d+)([KMG]?)", size)
        if level.isdigit() and number and kind != "Instruction":
            caches.append((int(level), level, shared, int(number.group(1)) * _UNITS[number.group(2)]))
    return max(caches)[1:] if caches else None
