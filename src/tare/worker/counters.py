"""What the kernel counts while a run lasts: CPU time of everybody, swap, throttling, pressure, own faults and reads.

Each value is None where the kernel does not tell. ``root`` is a prefix for every path, for recorded trees.
"""

from __future__ import annotations

import os
import resource
from typing import Dict, List, NamedTuple, Optional

from tare.worker.cgroup import folders, read_text, under

Number = Optional[float]


class Usage(NamedTuple):
    """What this process and its finished children have used so far."""

    device_read_bytes: Optional[int]
    major_faults: int


def counters(root: str = "/") -> Dict[str, Number]:
    """Return the ``counters`` object of the protocol: totals, to be subtracted from later ones."""
    own = [resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)]
    values: Dict[str, Number] = dict(cpu_times(read_text(under(root, "/proc/stat")) or ""))
    values["own_cpu_seconds"] = sum(usage.ru_utime + usage.ru_stime for usage in own)
    values["major_faults"] = sum(usage.ru_majflt for usage in own)
    values.update(swap_pages(read_text(under(root, "/proc/vmstat")) or ""))
    values["throttled_seconds"] = throttled_seconds(root)
    for name in ("cpu", "io", "memory"):
        text = read_text(under(root, "/proc/pressure/" + name))
        values["pressure_%s_seconds" % name] = pressure_seconds(text or "")
    return values


def cpu_times(stat: str, ticks: Optional[int] = None) -> Dict[str, Number]:
    """Return machine-wide busy, idle, stolen and soft interrupt seconds (a part of busy) from /proc/stat.

    Guests are part of user time already.
    """
    per_second = ticks or os.sysconf("SC_CLK_TCK")
    for line in stat.splitlines():
        fields = line.split()
        if fields[:1] == ["cpu"] and len(fields) >= 9:
            user, nice, system, idle, iowait, irq, softirq, steal = (int(field) for field in fields[1:9])
            return {
                "busy_seconds": (user + nice + system + irq + softirq) / per_second,
                "idle_seconds": (idle + iowait) / per_second,
                "steal_seconds": steal / per_second,
                "softirq_seconds": softirq / per_second,
            }
    return dict.fromkeys(("busy_seconds", "idle_seconds", "steal_seconds", "softirq_seconds"))


def swap_pages(vmstat: str) -> Dict[str, Number]:
    """Return pages swapped in and out, machine-wide, from /proc/vmstat."""
    values = dict(line.split(" ", 1) for line in vmstat.splitlines() if " " in line)
    return {
        "swap_in_pages": int(values["pswpin"]) if "pswpin" in values else None,
        "swap_out_pages": int(values["pswpout"]) if "pswpout" in values else None,
    }


def throttled_seconds(root: str = "/") -> Number:
    """Return how long the CPU quotas of the own cgroup and its visible parents have held it back."""
    version, chain = folders("cpu", root)
    key, scale = ("throttled_time", 1e-9) if version == 1 else ("throttled_usec", 1e-6)
    found: List[float] = []
    for folder in chain:
        for line in (read_text(folder + "/cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                found.append(int(value) * scale)
    return sum(found) if found else None


def pressure_seconds(text: str) -> Number:
    """Return the total time in which some task waited, from a file of /proc/pressure."""
    for line in text.splitlines():
        if line.startswith("some "):
            fields = dict(field.split("=", 1) for field in line.split()[1:])
            return int(fields["total"]) * 1e-6
    return None


def device_read_bytes(root: str = "/") -> Optional[int]:
    """Return the bytes this process and its finished children made the kernel fetch from block devices."""
    return _device_bytes("read_bytes", root)


def device_write_bytes(root: str = "/") -> Optional[int]:
    """Return the bytes this process and its finished children gave to block devices to be written.

    The kernel counts a page when it is made dirty on a file system with a device below: memory does not count.
    """
    return _device_bytes("write_bytes", root)


def _device_bytes(field: str, root: str) -> Optional[int]:
    for line in (read_text(under(root, "/proc/self/io")) or "").splitlines():
        name, _, value = line.partition(": ")
        if name == field:
            return int(value) if value.isdigit() else None
    return None


def increase(before: Optional[int], after: Optional[int]) -> Optional[int]:
    """Return by how much a counter grew, None where one of its two readings is not told."""
    return None if before is None or after is None else after - before


def usage(root: str = "/") -> Usage:
    """Return device reads and major faults so far; read around an epoch, outside its timed region."""
    faults = sum(
        resource.getrusage(who).ru_majflt for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return Usage(device_read_bytes(root), faults)


def cpu_seconds() -> float:
    """Return CPU seconds of this process and its finished children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def max_rss_bytes() -> int:
    """Return the largest resident set of this process or any finished child (Linux counts it in KiB)."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return max(one.ru_maxrss for one in both) * 1024
