"""Swap, huge pages, shared memory, limits: what memory does to a measurement."""

from __future__ import annotations

import os
import re
import resource

from tare.doctor.machine import GIB, Finding, Machine, quiet

#: below this a data loader with worker processes ends with a bus error (pytorch/pytorch#5040)
SHM_NEEDED = GIB
#: below this MPI and NCCL register no memory and fall back to slower transports
MEMLOCK_NEEDED = 64 << 20
#: the quick study's largest run and what stays for the system
MEMORY_NEEDED = 4 * GIB


def meminfo(text: str) -> dict[str, int]:
    """Return the entries of /proc/meminfo in bytes."""
    return {
        name: int(number) * 1024 for name, number in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    }


def available(machine: Machine) -> Finding:
    """Return the memory that is free for a run."""
    free = meminfo(machine.read("/proc/meminfo") or "").get("MemAvailable")
    if free is None:
        return quiet("memory available", None, "not shown", "at least 4 GiB", "")
    value = f"{free / GIB:.1f} GiB"
    return quiet("memory available", free >= MEMORY_NEEDED, value, "at least 4 GiB", "end what uses it")


def swap(machine: Machine) -> Finding:
    """Return how much swap is in use."""
    memory = meminfo(machine.read("/proc/meminfo") or "")
    total, used = memory.get("SwapTotal", 0), memory.get("SwapTotal", 0) - memory.get("SwapFree", 0)
    value = f"{used / GIB:.1f} of {total / GIB:.1f} GiB used" if total else "none"
    return quiet(
        "swap", used == 0, value, "none in use", "sudo swapoff -a (swapon -a afterwards), if memory allows"
    )


def chosen(text: str | None) -> str | None:
    """Return the choice in brackets, as the kernel marks it: ``always [madvise] never``."""
    found = re.search(r"\[([^\]]+)\]", text or "")
    return found[1] if found else None


def huge_pages(machine: Machine) -> Finding:
    """Return the settings of transparent huge pages; they hold for host and containers alike."""
    folder = "/sys/kernel/mm/transparent_hugepage"
    enabled, defrag = chosen(machine.read(f"{folder}/enabled")), chosen(machine.read(f"{folder}/defrag"))
    if enabled is None:
        return quiet("transparent huge pages", None, "not shown", "defrag not always", "")
    remedy = f"echo madvise | sudo tee {folder}/defrag (and set it back afterwards)"
    value = f"enabled {enabled}, defrag {defrag or 'not shown'}; the same for host and containers"
    return quiet("transparent huge pages", defrag != "always", value, "defrag not always", remedy)


def shared_memory(machine: Machine) -> Finding:
    """Return the size of /dev/shm here; a container has 64 MiB of its own unless told otherwise."""
    try:
        sizes = os.statvfs(machine.at("/dev/shm"))
    except OSError:
        return quiet("/dev/shm", False, "absent", "at least 1 GiB", "mount a tmpfs there")
    size = sizes.f_blocks * sizes.f_frsize
    value = f"{size / GIB:.2f} GiB here, 64 MiB in a container by default"
    remedy = "sudo mount -o remount,size=1G /dev/shm (in a container: --shm-size=1g)"
    return quiet("/dev/shm", size >= SHM_NEEDED, value, "at least 1 GiB", remedy)


def locked_memory(machine: Machine) -> Finding:
    """Return the limit of locked memory of this process."""
    unlimited = machine.memlock == resource.RLIM_INFINITY
    value = "unlimited" if unlimited else f"{machine.memlock / (1 << 20):g} MiB"
    remedy = "ulimit -l unlimited (limits.conf), if networks with RDMA are measured"
    fine = unlimited or machine.memlock >= MEMLOCK_NEEDED
    return quiet("locked memory (memlock)", fine, value, "at least 64 MiB", remedy)


def swap_accounting(machine: Machine) -> Finding:
    """Return whether the engine can limit a container's swap (docker/for-linux#1001)."""
    limit = machine.engine_info.get("SwapLimit")
    value = "not shown" if limit is None else "yes" if limit else "no: a memory limit does not limit swap"
    remedy = "boot with cgroup_enable=memory swapaccount=1, or have no swap"
    fine = None if limit is None else bool(limit)
    return quiet("swap accounting", fine, value, "yes", remedy)


def findings(machine: Machine) -> list[Finding]:
    """Return every finding on memory."""
    checks = (available, swap, huge_pages, shared_memory, locked_memory, swap_accounting)
    return [check(machine) for check in checks]
