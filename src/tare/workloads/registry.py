"""Every workload by its name: what the families declare, put together. Standard library only."""

from __future__ import annotations

import importlib
from typing import Dict

from tare.workloads.declaration import LAYERS, Workload

#: the modules of this package that declare workloads, in the order of the report
FAMILIES = (
    "startup",
    "hpcc",
    "hpl",
    "dgemm",
    "hpcg",
    "stream",
    "memory",
    "syscall",
    "files",
    "io_ping",
    "fio",
    "io_write",
    "copy_up",
    "network",
    "training",
    "gpu",
)


def collect() -> Dict[str, Workload]:
    """Return name → workload of all families; raises ``ValueError`` for a name or layer that cannot be."""
    found: Dict[str, Workload] = {}
    for family in FAMILIES:
        for workload in importlib.import_module("tare.workloads." + family).WORKLOADS:
            if workload.name in found:
                raise ValueError("workload %r is declared twice; rename one" % workload.name)
            if workload.layer not in LAYERS:
                raise ValueError(
                    "workload %s: layer %r is unknown; allowed: %s"
                    % (workload.name, workload.layer, ", ".join(LAYERS))
                )
            found[workload.name] = workload
    return found


WORKLOADS: Dict[str, Workload] = collect()


def family_of(name: str) -> str:
    """Return the module of this package that declares workload ``name``; the worker imports no other."""
    return next(
        family
        for family in FAMILIES
        if any(w.name == name for w in importlib.import_module("tare.workloads." + family).WORKLOADS)
    )
