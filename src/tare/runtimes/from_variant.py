"""Variants of the config as runtime objects: what each one toggles, in the words of the engine or of crun."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tare.runtimes import rungs
from tare.runtimes.container import Container
from tare.runtimes.crun import Crun
from tare.runtimes.engine_spec import CAPABILITIES, own_capabilities
from tare.variants import Variant

ALL = "all"
#: feature that is left out → options of ``Container`` that leave it out. `ipc` takes UTS with it, as the rungs do.
DOCKER_WITHOUT: dict[str, dict[str, Any]] = {
    "overlay": {"bound_root": True},
    "pid": {"pid_mode": "host"},
    "ipc": {"ipc_mode": "host", "uts_mode": "host"},
    "network": {"network_mode": "host"},
    "seccomp": {"security_opt": ("seccomp=unconfined",)},
    "apparmor": {"security_opt": ("apparmor=unconfined",)},
    "init": {"init": False},
}
_OF_LINUX_5_8 = ("CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE")
_ONLINE = Path("/sys/devices/system/cpu/online")


def docker(name: str, variant: Variant) -> Container:
    """Return runtime `docker` with the variant's features left out and options set."""
    changes: dict[str, Any] = {
        "cap_add": variant.cap_add,
        "network_mode": variant.network,
        "log_driver": variant.log_driver,
        "memory_bytes": variant.memory_bytes,
        "cpus": cpus(variant),
        "cpuset": cpuset(variant),
        "shm_bytes": variant.shm_bytes,
    }
    for feature in variant.without:
        for option, value in _left_out(feature).items():
            several = isinstance(value, tuple)
            changes[option] = (*changes.get(option, ()), *value) if several else value
    return Container(name, **changes)


def _left_out(feature: str) -> dict[str, Any]:
    """Return what leaves a feature out of docker.

    Capabilities also widen the engine's seccomp profile, which depends on them.
    """
    return {"cap_add": all_capabilities()} if feature == "capabilities" else DOCKER_WITHOUT[feature]


def all_capabilities() -> tuple[str, ...]:
    """Return what gives a container all that this machine's root has.

    `ALL` fails where the engine itself was given fewer: then they are named, without those of Linux 5.8 and later,
    which Docker 20.10 does not know.
    """
    own = own_capabilities()
    if set(CAPABILITIES) <= set(own):
        return ("ALL",)
    return tuple(name.removeprefix("CAP_") for name in own if name not in _OF_LINUX_5_8)


def crun(name: str, variant: Variant) -> Crun:
    """Return runtime `crun` with the variant's features left out and options set."""
    options = rungs.Options(
        cap_add=variant.cap_add,
        cpus=cpus(variant),
        cpuset=cpuset(variant),
        memory_bytes=variant.memory_bytes,
        shm_bytes=variant.shm_bytes,
        user_namespace=variant.user_namespace,
    )
    return Crun(name, variant.without, options)


def cpus(variant: Variant) -> float | None:
    """Return the quota in CPUs; `all` is the number of CPUs that are online."""
    return float(len(expand(online()))) if variant.cpus == ALL else variant.cpus  # type: ignore[return-value]


def cpuset(variant: Variant) -> str | None:
    """Return the CPUs by number; `all` are those that are online."""
    return online() if variant.cpuset == ALL else variant.cpuset


def online(path: Path = _ONLINE) -> str:
    """Return the machine's online CPUs as the kernel lists them, e.g. ``0-3,8``."""
    return path.read_text(encoding="ascii").strip()


def expand(listed: str) -> list[int]:
    """Return the numbers of a kernel's list of CPUs; raises ``ValueError`` for one that is none."""
    found: list[int] = []
    for part in listed.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise ValueError(f"{listed!r} is no list of CPUs such as 0-3,8")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found
