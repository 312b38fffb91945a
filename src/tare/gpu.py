"""What a GPU asks of the measuring side: may a stack or a run use one here, and was its run disturbed?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.runtimes.base import Unavailable
from tare.setup import capabilities
from tare.software.errors import SoftwareError
from tare.software.locks import StackLock
from tare.worker import nvidia_smi

#: wheels of this name bring CUDA: a lock that has one is of no use without an NVIDIA GPU
CUDA_WHEELS = "nvidia-"
#: runtimes that start the image's files without the engine; the driver's libraries are not among them
WITHOUT_DRIVER = ("chroot", "chroot-userns", "crun")
SLOWED_SECONDS = 1e-3  # growth of a throttle counter that is still none
#: reasons that follow from the work and the card's own limit: noted, but measuring again would not remove them
OWN_LIMITS = ("sw_power_cap", "sync_boost")


def missing_for(lock: StackLock) -> str | None:
    """Return why a lock's software is of no use on this machine, with the remedy, or None (also for no lock)."""
    try:
        needs = any(requirement.name.startswith(CUDA_WHEELS) for requirement in lock.wheels().requirements)
    except SoftwareError:
        return None  # whoever uses the lock says what is wrong with it
    if not needs:
        return None
    gpu = capabilities.detect("gpu")
    return None if gpu.ok else f"{gpu.why}; {gpu.remedy}"


def refusal(base: str) -> Unavailable | None:
    """Return why a GPU workload cannot run in a runtime (or a variant of it) on this machine, or None."""
    gpu = capabilities.detect("gpu")
    if not gpu.ok:
        return Unavailable(gpu.why, gpu.remedy)
    if base in WITHOUT_DRIVER:
        return Unavailable(
            "the NVIDIA driver's libraries belong to the machine and not to the image, and only the engine "
            "brings them in",
            "compare docker with host for GPU workloads, as config/presets/gpu.yaml does",
        )
    containers = capabilities.detect("gpu_containers")
    if base != "host" and not containers.ok:
        return Unavailable(containers.why, containers.remedy)
    return None


def settings(run: nvidia_smi.Run | None = None) -> dict[str, dict[str, Any]]:
    """Return index → settings of every NVIDIA GPU (without its serial identity); empty where there is none."""
    try:
        gpus = nvidia_smi.query(nvidia_smi.SETTINGS, run)
    except nvidia_smi.SmiError:
        return {}
    return {
        str(index): {name: value for name, value in gpu.items() if name != "uuid"}
        for index, gpu in enumerate(gpus)
    }


def flags(facts: Mapping[str, Any]) -> list[str]:
    """Return the flags of a run from the facts of its check (``gpu_before``, ``gpu_under_load``); none without GPU."""
    before, after = (facts.get(name) or {} for name in ("gpu_before", "gpu_under_load"))
    return [*_busy(before), *_slowed(before, after)]


def _busy(before: Mapping[str, Any]) -> list[str]:
    share = before.get("utilisation")
    # Without persistence mode the driver has just been started, and its first answer is no measurement.
    if share is None or share <= nvidia_smi.BUSY or before.get("persistence_mode") != "Enabled":
        return []
    return [
        f"disturbed: the GPU was busy for {share:.0%} of the time before the run (limit {nvidia_smi.BUSY:.0%}); "
        "stop other work on it (nvidia-smi lists it)"
    ]


def _slowed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    now = nvidia_smi.clock_reasons(dict(after))
    found = []
    for _, name, words in nvidia_smi.REASONS:
        counts = [state.get(f"{name}_seconds") for state in (before, after)]
        grown = None if counts[0] is None or counts[1] is None else counts[1] - counts[0]
        if name not in now and not (grown is not None and grown > SLOWED_SECONDS):
            continue
        told = "under load" if grown is None else f"for {grown:.3g} s of the run"
        found.append(
            f"GPU: {words} {told}; equal for every runtime, part of the result"
            if name in OWN_LIMITS
            else f"disturbed: GPU: {words} {told}; cool it, or lower its power limit (sudo nvidia-smi -pl)"
        )
    return found
