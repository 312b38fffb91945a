"""How many CPUs and how much memory this process can really use: limits of the machine and of its cgroups.

``os.cpu_count()`` knows neither (python/cpython#80235); a pool sized by it is many times slower under a quota.
"""

from __future__ import annotations

import math
import os
import re
from typing import Optional

from tare.worker.cgroup import folders, read_text, under


def quota_cpus(root: str = "/") -> Optional[float]:
    """Return the smallest CPU quota (in CPUs) on the way from the own cgroup to the visible root, or None."""
    version, chain = folders("cpu", root)
    quotas = [_quota(version, folder) for folder in chain]
    return min((quota for quota in quotas if quota is not None), default=None)


def effective_cpus(root: str = "/", affinity: Optional[int] = None) -> int:
    """Return min(affinity, ceil(quota ÷ period)), at least 1.

    ``affinity`` is the number of CPUs this process may be scheduled on (None: asked of the kernel); ``root`` is
    the prefix of the /proc and /sys that are read.
    """
    allowed = len(os.sched_getaffinity(0)) if affinity is None else affinity
    quota = quota_cpus(root)
    return max(1, allowed if quota is None else min(allowed, math.ceil(quota)))


def memory_limit(root: str = "/") -> int:
    """Return the bytes of memory this process may use: the smallest of the machine's and its cgroups' limits.

    Raises ``OSError`` where /proc does not tell the machine's memory.
    """
    total = re.search(r"^MemTotal:\s+(\d+) kB", read_text(under(root, "/proc/meminfo")) or "", re.MULTILINE)
    if total is None:
        raise OSError("/proc/meminfo does not tell MemTotal; mount /proc")
    version, chain = folders("memory", root)
    name = "memory.limit_in_bytes" if version == 1 else "memory.max"
    limits = [(read_text(folder + "/" + name) or "").strip() for folder in chain]
    return min([int(total.group(1)) * 1024, *(int(limit) for limit in limits if limit.isdigit())])


def _quota(version: int, folder: str) -> Optional[float]:
    if version == 1:
        quota, period = read_text(folder + "/cpu.cfs_quota_us"), read_text(folder + "/cpu.cfs_period_us")
        fields = [quota or "", period or ""]
    else:
        fields = (read_text(folder + "/cpu.max") or "").split()
    try:
        quota_us, period_us = (int(field) for field in fields)
    except ValueError:  # absent, or "max 100000"
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None
