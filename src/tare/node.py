"""What is known about this node: everything that could explain a number, read and never changed.

``root`` is a prefix for every path, so that recorded trees can be read. A fact that a kernel does not tell is None.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from tare import gpu
from tare.config import digest
from tare.identity import node_id
from tare.runtimes import engine
from tare.setup import engine_probe

#: what makes a machine another machine (design.md §9)
MACHINE_FACTS = (
    "cpu_model",
    "cores",
    "logical_cpus",
    "smt",
    "memory_class",
    "gpus",
    "kernel",
    "engine_version",
)
GIB = 1024**3


def node_facts(root: Path = Path("/")) -> dict[str, Any]:
    """Return the facts of this node, its ``node`` id and ``machine_id`` among them.

    Nothing in it changes while a machine is left alone, except by somebody's hand: two runs of one block must
    have the same.
    """
    facts = {
        "node": node_id(),
        **hardware(root),
        **settings(root),
        **_engine(),
        "gpu_settings": gpu.settings(),
    }
    return {"machine_id": machine_id(facts), **facts}


def machine_id(facts: Mapping[str, Any]) -> str:
    """Return 16 hex digits over CPU model, cores, SMT, memory class, GPUs, kernel and engine version."""
    return digest([facts.get(name) for name in MACHINE_FACTS])[:16]


def hardware(root: Path) -> dict[str, Any]:
    """Return CPU, memory and GPU facts."""
    cpus = _cpus(_text(root / "proc/cpuinfo") or "")
    logical = len(cpus) or None
    # Where a hypervisor tells no topology every logical CPU counts as a core.
    cores = len({(c.get("physical id"), c.get("core id", number)) for number, c in enumerate(cpus)}) or None
    memory = _memory(root, "MemTotal")
    return {
        "architecture": platform.machine(),
        "cpu_model": next((c["model name"] for c in cpus if "model name" in c), None),
        "cores": cores,
        "logical_cpus": logical,
        "smt": None if not logical or not cores else logical > cores,
        "memory_bytes": memory,
        "memory_class": None if memory is None else memory_class(memory),
        "gpus": gpus(root),
        "virtualisation": _virtualisation(root, cpus),
    }


def _cpus(cpuinfo: str) -> list[dict[str, str]]:
    blocks = (block.splitlines() for block in cpuinfo.split("\n\n"))
    parsed = (
        {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        for lines in blocks
    )
    return [cpu for cpu in parsed if "processor" in cpu]


def memory_class(size: int) -> str:
    """Return the size of memory as it is sold, e.g. `24 GiB` for 23.5: what a kernel keeps for itself varies."""
    sizes = sorted({factor * 2**power / 4 for factor in (2, 3) for power in range(20)})
    return f"{next(gib for gib in sizes if size <= gib * GIB * 1.01):g} GiB"


def gpus(root: Path) -> list[str]:
    """Return the models of the GPUs that a compute driver shows, sorted; without starting any tool."""
    nvidia = (_text(path) or "" for path in root.glob("proc/driver/nvidia/gpus/*/information"))
    models = [
        match[1].strip() for text in nvidia if (match := re.search(r"^Model:\s*(.+)$", text, re.MULTILINE))
    ]
    amd = (_text(path / "name") for path in root.glob("sys/class/kfd/kfd/topology/nodes/*"))
    return sorted([*models, *(name for name in amd if name)])


def _virtualisation(root: Path, cpus: list[dict[str, str]]) -> str | None:
    if not any("hypervisor" in cpu.get("flags", "").split() for cpu in cpus):
        return "none" if cpus else None
    names = [_text(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    return (
        " ".join(name for name in names if name)
        or _text(root / "sys/hypervisor/type")
        or "unnamed hypervisor"
    )


def settings(root: Path) -> dict[str, Any]:
    """Return the kernel and its settings that bear on speed."""
    governors = {_text(path) for path in root.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")}
    pages = root / "sys/kernel/mm/transparent_hugepage"
    clock = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    flaws = root.glob("sys/devices/system/cpu/vulnerabilities/*")
    return {
        "kernel": _text(root / "proc/sys/kernel/osrelease"),
        "governor": ", ".join(sorted(filter(None, governors))) or None,
        "clock_source": _text(clock),
        "thp_enabled": _chosen(_text(pages / "enabled")),
        "thp_defrag": _chosen(_text(pages / "defrag")),
        "swap_bytes": _memory(root, "SwapTotal"),
        "cgroup_version": 2 if (root / "sys/fs/cgroup/cgroup.controllers").exists() else 1,
        "mitigations": {path.name: _text(path) for path in sorted(flaws)},
        "bridge_up": (root / "sys/class/net/docker0").exists(),
    }


def _engine() -> dict[str, Any]:
    """Return what is known of the Docker engine: that it runs at all bears on the host's own numbers (case 39)."""
    state = engine_probe.probe()
    said: Mapping[str, Any] = {}
    if state.answers:
        with suppress(DockerException, *engine.GONE):
            said = engine.facts()
    return {
        "engine_state": state.state,
        "engine_version": said.get("version"),
        "engine_storage_driver": said.get("storage_driver"),
        "engine_cgroup_driver": said.get("cgroup_driver"),
    }


def _text(path: Path) -> str | None:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    return None


def _chosen(text: str | None) -> str | None:
    """Return the choice in brackets of a kernel setting like ``always [madvise] never``."""
    match = re.search(r"\[(\S+)\]", text or "")
    return match[1] if match else None


def _memory(root: Path, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB$", _text(root / "proc/meminfo") or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None
