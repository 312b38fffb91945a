"""A study that was never measured: blocks like recorded ones, made by arithmetic, with known ratios in them.

``python tests/unit/synthetic_study.py FOLDER`` writes the block files of the standard study to FOLDER.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from tare import records
from tare.config import Cell, Study, load
from tare.order import slots
from tare.workloads.declaration import Factor, Metric, Workload

MACHINE = "5a5d1ab7c0ffee00"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
#: true cost ratio to host of every runtime, for every metric but start-up
COST = {"host": 1.0, "chroot": 1.0, "docker": 1.02}
START_SECONDS = {"host": 0.021, "chroot": 0.022, "docker": 0.31}
BASE = {
    ("hpcc", "hpl_flops"): 9.1e10,
    ("hpcc", "dgemm_flops"): 6.2e10,
    ("hpcc", "stream_triad"): 1.1e10,
    ("hpcc", "fft_flops"): 2.3e9,
    ("hpcc", "random_access"): 2.4e7,
    ("hpcc", "ptrans"): 2.1e9,
    ("hpcc", "latency"): 4.2e-7,
    ("train-torch-fcn5", "step_seconds"): 0.21,
    ("train-torch-alexnet", "step_seconds"): 0.13,
}
#: a plausible number of every other workload's metrics
OF_UNIT = {"s": 1.7e-6, "B/s": 1.2e9, "flop/s": 3.1e9}
_OF_OTHER_UNIT = 4.0e4

Run = dict[str, Any]
Change = Callable[[Run], None]


def study(**changes: Any) -> Study:
    """Return a study of start-up, kernels and training, with some entries changed."""
    cells = [{"workload": name} for name in ("startup", "hpcc", "train-torch-fcn5", "train-torch-alexnet")]
    return load({"study": "quick", "blocks": 5, "cells": cells, **changes})


def fingerprint(runtime: str, workload: str, **changes: Any) -> str:
    """Return the JSON text of a plausible fingerprint; ``changes`` overwrite its sections' entries."""
    inside = runtime != "host"
    value: dict[str, Any] = {
        "node": {
            "cpu_model": "Example CPU 2.1 GHz",
            "cores": 2,
            "kernel": "6.1.0",
            "engine_version": "20.10",
        },
        "launch": {
            "runtime": runtime,
            "kind": {"host": "process", "chroot": "chroot"}.get(runtime, "container"),
        },
        "process": {
            "interpreter": {"version": "3.11.2" if inside else "3.11.9"},
            "glibc": "2.36",
            "effective_cpus": 2,
            "environment": {"OMP_NUM_THREADS": "2"},
        },
        "software": {"torch": "2.13.0+cpu"} if "torch" in workload else {"hpcc": "1.5.0"},
        "libraries": {},
        "check": {
            "losses": [2.3, 1.9, 1.4],
            "loss_hex": [x.hex() for x in (2.3, 1.9, 1.4)],
            "parameters": 85098,
        },
    }
    for section, entries in changes.items():
        value[section] = value[section] | entries
    return json.dumps(value, sort_keys=True)


def block(
    of: Study,
    cell: Cell,
    number: int,
    *,
    noise: float = 0.01,
    attempt: int = 1,
    costs: Mapping[str, float] = COST,
    machine: str = MACHINE,
    change: Change | None = None,
) -> pa.Table:
    """Return one block with one attempt; ``change`` may alter each run (status, flags, samples) before it is stored."""
    random_ = random.Random(f"{of.seed}/{cell.id}/{number}/{attempt}/{machine}")
    drift = 1 + 0.04 * math.sin(number)
    rows = []
    for slot in slots(of.seed, cell.id, number, cell.runtimes, cell.control):
        factor = drift * costs.get(slot.runtime, 1.0) * math.exp(random_.gauss(0, noise))
        run = _run(of, cell, number, attempt, slot.position, slot.runtime, slot.role, factor, machine)
        if change:
            change(run)
        if run["status"] != "ok":
            run["samples"] = []
        rows.append(run)
    return records.table(rows, records.BLOCK)


def _run(
    of: Study,
    cell: Cell,
    number: int,
    attempt: int,
    position: int,
    runtime: str,
    role: str,
    factor: float,
    machine: str,
) -> Run:
    start = START_SECONDS.get(runtime, 0.3) * factor
    ready = start + {"startup": 0.01, "hpcc": 0.02}.get(cell.workload, 1.3) * factor
    samples, busy = _samples(cell, factor, start, random.Random(f"{runtime}/{role}/{number}/{attempt}"))
    identity = f"{of.study}/{cell.id}/{number}/{attempt}/{position}/{machine}"
    inside = runtime != "host"
    return {
        "machine_id": machine,
        "node": "e1f2",
        "study": of.study,
        "cell": cell.id,
        "workload": cell.workload,
        "stack": cell.stack,
        "factors": sorted((k, str(v)) for k, v in cell.factors.items()),
        "runtime": runtime,
        "role": role,
        "block": number,
        "attempt": attempt,
        "position": position,
        "run_id": hashlib.sha256(identity.encode()).hexdigest()[:16],
        "started_at": START + timedelta(seconds=60 * number + 7 * position + 30 * attempt),
        "status": "ok",
        "reasons": [],
        "flags": [],
        "seconds_to_start": start,
        "seconds_to_ready": ready,
        "seconds_total": ready + busy + 0.05,
        "cpu_seconds": 2 * busy,
        "max_rss_bytes": 400_000_000,
        "device_read_bytes": 31_000_000,
        "resident_before": 0.0,
        "image_digest": ("sha256:" + "ab" * 32) if inside else None,
        "worker_sha256": "cd" * 32,
        "lock_sha256": "ef" * 32,
        "fingerprint": fingerprint(runtime, cell.workload),
        "samples": samples,
    }


def _sample(phase: str, epoch: int | None, index: int, metric: str, unit: str, value: float) -> Run:
    return {"phase": phase, "epoch": epoch, "index": index, "metric": metric, "unit": unit, "value": value}


def _samples(cell: Cell, factor: float, start: float, random_: random.Random) -> tuple[list[Run], float]:
    if cell.workload == "startup":
        total = start + 0.03 * factor
        return [
            _sample("startup", None, 0, "start_seconds", "s", start),
            _sample("startup", None, 0, "total_seconds", "s", total),
        ], 0.0
    if cell.workload == "hpcc":
        hpcc = []
        for index, m in enumerate(cell.spec.metrics):
            cost = factor * math.exp(random_.gauss(0, 0.005 * index))  # later metrics are noisier
            value = BASE["hpcc", m.name] * (cost if m.cost else 1 / cost)
            hpcc.append(_sample("steady", None, 0, m.name, m.unit, value))
        return hpcc, 4.5 * factor
    if not cell.workload.startswith("train-"):
        return [_of_metric(index, m, factor) for index, m in enumerate(cell.spec.metrics)], 1.1 * factor
    samples, total = [], 0.0
    step = BASE[cell.workload, "step_seconds"] * factor
    for epoch in range(3):
        phase = "steady" if epoch else "first"
        steps = [step * (1.3 if not epoch and not i else 1.0) * (1 + 0.01 * i) for i in range(4)]
        samples += [_sample(phase, epoch, i, "step_seconds", "s", value) for i, value in enumerate(steps)]
        samples.append(_sample(phase, epoch, 0, "epoch_seconds", "s", sum(steps) + 0.002))
        total += sum(steps) + 0.002
    return samples, total


def _of_metric(index: int, metric: Metric, factor: float) -> Run:
    value = OF_UNIT.get(metric.unit, _OF_OTHER_UNIT) * (1 + index) * (factor if metric.cost else 1 / factor)
    return _sample(metric.phase, None, 0, metric.name, metric.unit, value)


def workload(name: str, layer: str, metrics: int, unit: str = "s", optional: bool = False) -> Workload:
    """Return a workload that nobody wrote, to be put into the registry by a test."""
    return Workload(
        name=name,
        title=f"{name}: made up",
        stack="hpc",
        adapter="none",
        factors={"depth": Factor(1, (), "a number")},
        metrics=tuple(
            Metric(f"metric_{n}", "steady", unit, unit == "s", f"operation {n}", optional)
            for n in range(metrics)
        ),
        layer=layer,
        expected_seconds=1.0,
    )


#: a ladder, a star and options as a study declares them, and what each rung costs against the host
LADDER = {
    "host": 1.0,
    "chroot": 1.0,
    "mounts": 1.001,
    "processes": 1.001,
    "network": 1.03,
    "cgroup": 1.031,
    "capabilities": 1.031,
    "seccomp": 1.15,
    "docker": 1.18,
}
STAR = {"no-seccomp": 1.03, "host-network": 1.15, "no-overlay": 1.179}
OPTIONS = {"with-quota": 1.30, "with-shm": 1.18}


def attribution(**changes: Any) -> Study:
    """Return a study with a ladder, a star and options."""
    crun = {
        "mounts": (
            "mount namespace and overlay root",
            ["pid", "ipc", "network", "cgroup", "capabilities", "seccomp"],
        ),
        "processes": ("process and IPC namespaces", ["network", "cgroup", "capabilities", "seccomp"]),
        "network": ("network namespace", ["cgroup", "capabilities", "seccomp"]),
        "cgroup": ("cgroup", ["capabilities", "seccomp"]),
        "capabilities": ("capabilities dropped", ["seccomp"]),
        "seccomp": ("seccomp", []),
    }
    variants: dict[str, Any] = {
        name: {"base": "crun", "label": label, "without": without} for name, (label, without) in crun.items()
    }
    for name, label, without in (
        ("no-seccomp", "seccomp", ["seccomp"]),
        ("host-network", "network namespace", ["network"]),
        ("no-overlay", "overlay root", ["overlay"]),
    ):
        variants[name] = {"base": "docker", "label": label, "without": without}
    variants["with-quota"] = {"base": "docker", "label": "CPU quota", "cpus": "all"}
    variants["with-shm"] = {"base": "docker", "label": "/dev/shm of 1 GiB", "shm_bytes": 2**30}
    lists = {"ladder": [*LADDER], "star": [*STAR], "options": [*OPTIONS]}
    cells = [{"workload": "startup"}, {"workload": "hpcc"}, {"workload": "train-torch-fcn5"}]
    return study(**({"study": "attribution", "variants": variants, "cells": cells, **lists} | changes))


def attribution_blocks(of: Study, noise: float = 0.002, **given: Any) -> dict[tuple[str, int], pa.Table]:
    """Return its blocks: network namespace, seccomp and engine cost, the quota too, the others nothing."""
    costs = LADDER | STAR | OPTIONS
    return {
        (cell.id, number): block(of, cell, number, noise=noise, costs=costs, **given)
        for cell in of.expand()
        for number in range(1, of.blocks + 1)
    }


def join(*tables: pa.Table) -> pa.Table:
    """Return one block file's table of several attempts."""
    return records.table([row for one in tables for row in one.to_pylist()], records.BLOCK)


def fail(status: str, reason: str, runtime: str) -> Change:
    """Return a change that lets every run of ``runtime`` end with ``status`` and ``reason``."""

    def change(run: Run) -> None:
        if run["runtime"] == runtime:
            run.update(status=status, reasons=[reason])

    return change


def disturb(run: Run) -> None:
    """Flag the run as disturbed, and slow it: only the flag may decide."""
    run["flags"] = [
        "disturbed: other processes used 23 % of the CPU time (limit 10 %); close them and measure again"
    ]
    for sample in run["samples"]:
        sample["value"] *= 1.3


def standard_blocks(of: Study) -> dict[tuple[str, int], pa.Table]:
    """Return a study in which things went wrong: a host without hpcc, a crash, disturbed blocks, slow start-up."""
    result = {}
    for cell in of.expand():
        for number in range(1, of.blocks + 1):
            change: Change | None = None
            if cell.workload == "hpcc":
                change = fail("skipped", "package hpcc is not installed; run: apt-get install hpcc", "host")
            if cell.workload == "train-torch-alexnet" and number == 3:
                change = fail("failed", "out of memory: killed by the kernel (SIGKILL)", "docker")
            one = block(of, cell, number, change=change)
            if cell.workload == "train-torch-fcn5" and number == 2:
                one = join(block(of, cell, number, change=disturb), block(of, cell, number, attempt=2))
            if cell.workload == "train-torch-fcn5" and number == 4:
                one = join(*(block(of, cell, number, attempt=attempt, change=disturb) for attempt in (1, 2)))
            result[cell.id, number] = one
    return result


def write_blocks(blocks: Mapping[tuple[str, int], pa.Table], folder: Path) -> list[Path]:
    """Write block files as the measuring side lays them out, and return their paths."""
    paths = []
    for (cell, number), table in blocks.items():
        path = folder / cell / f"{number}.parquet"
        records.write(table, path)
        paths.append(path)
    return paths


def tables(blocks: Iterable[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Return (runs, samples) of some blocks."""
    return records.split_blocks(list(blocks))


if __name__ == "__main__":
    for written in write_blocks(standard_blocks(study()), Path(sys.argv[1])):
        print(written)
