"""What bears on GPU workloads: the GPUs, whether containers get them, and the settings that move their clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.doctor.machine import ABLE, INFO, OK, Finding, Machine, ability, quiet
from tare.worker import nvidia_smi


def gpus() -> list[Mapping[str, Any]]:
    """Return settings and state of every NVIDIA GPU of this machine; empty where there is none."""
    try:
        return [*nvidia_smi.query([*nvidia_smi.SETTINGS, *nvidia_smi.STATE])]
    except nvidia_smi.SmiError:
        return []


def able(machine: Machine) -> list[Finding]:
    """Return which GPUs can be measured, and whether containers are handed them."""
    if not machine.gpus:
        driver = (machine.read("/proc/driver/nvidia/version") or "").splitlines()
        why = f"the driver is loaded ({driver[0]}), nvidia-smi lists none" if driver else "none"
        return [Finding(ABLE, "GPU", f"{why}: stack torch-cuda is skipped", "not needed", INFO)]
    value = "; ".join(f"{gpu['model']}, driver {gpu['driver']}" for gpu in machine.gpus)
    containers = machine.capability("gpu_containers")
    return [
        Finding(ABLE, "GPU", value, "not needed", OK),
        ability(
            "GPU in containers",
            containers.ok,
            containers.why,
            "the NVIDIA container toolkit",
            containers.remedy,
        ),
    ]


def disturbs(machine: Machine) -> list[Finding]:
    """Return persistence mode, clocks and load of every GPU; nothing where there is none."""
    return [
        finding
        for index, gpu in enumerate(machine.gpus)
        for finding in (_persistence(index, gpu), _clocks(index, gpu), _load(index, gpu))
    ]


def _persistence(index: int, gpu: Mapping[str, Any]) -> Finding:
    mode = gpu.get("persistence_mode")
    fine = None if mode is None else mode == "Enabled"
    remedy = f"sudo nvidia-smi -i {index} -pm 1: else the driver is loaded anew for each run, and starts cold"
    return quiet(f"GPU {index} persistence mode", fine, mode or "not shown", "Enabled", remedy)


def _clocks(index: int, gpu: Mapping[str, Any]) -> Finding:
    slowed = [words for _, name, words in nvidia_smi.REASONS if name in nvidia_smi.clock_reasons(dict(gpu))]
    now, most, limit = (gpu.get(name) for name in ("sm_clock_hz", "max_sm_clock_hz", "power_limit_watts"))
    value = ", ".join(
        [
            f"{_megahertz(now)} now, at most {_megahertz(most)}",
            "power limit not shown" if limit is None else f"power limit {limit:g} W",
            *slowed,
        ]
    )
    remedy = f"cool it, or hold the clocks: sudo nvidia-smi -i {index} -lgc <MHz> (and -rgc afterwards)"
    return quiet(f"GPU {index} clocks", not slowed, value, "not slowed down", remedy)


def _megahertz(clock: float | None) -> str:
    return "not shown" if clock is None else f"{clock / 1e6:.0f} MHz"


def _load(index: int, gpu: Mapping[str, Any]) -> Finding:
    share = gpu.get("utilisation")
    fine = None if share is None else share <= nvidia_smi.BUSY
    value = "not shown" if share is None else f"{share:.0%}"
    good = f"below {nvidia_smi.BUSY:.0%}"
    return quiet(f"GPU {index} load now", fine, value, good, "stop other work (nvidia-smi lists it)")
