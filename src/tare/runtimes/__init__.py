"""How a process of a stack is started: one object per runtime, by the names of the config."""

from __future__ import annotations

from collections.abc import Mapping

from tare.config import nearest
from tare.runtimes import from_variant
from tare.runtimes.base import RuntimeClass
from tare.runtimes.chroot import Chroot, ChrootUserns
from tare.runtimes.container import DOCKER, DOCKER_HARDENED, DOCKER_PURE
from tare.runtimes.crun import Crun
from tare.runtimes.host import Host
from tare.runtimes.vxlan import HostVxlan
from tare.variants import Variant

RUNTIMES: dict[str, RuntimeClass] = {
    runtime.name: runtime
    for runtime in (Host(), Chroot(), ChrootUserns(), DOCKER, DOCKER_PURE, DOCKER_HARDENED, Crun())
}


def get(name: str, variants: Mapping[str, Variant] | None = None) -> RuntimeClass:
    """Return the runtime of this name, one of ours or of ``variants``.

    Raises ``KeyError`` naming the nearest and all allowed ones.
    """
    if variants and name in variants:
        return make(name, variants[name])
    try:
        return RUNTIMES[name]
    except KeyError:
        raise KeyError(f"unknown runtime {name!r}; {nearest(name, [*RUNTIMES, *(variants or {})])}") from None


def make(name: str, variant: Variant) -> RuntimeClass:
    """Return the runtime that a variant of the config describes; `all` CPUs are those of this machine."""
    if variant.base == "crun":
        return from_variant.crun(name, variant)
    if variant.base == "docker":
        return from_variant.docker(name, variant)
    return HostVxlan(name) if variant.network == "vxlan" else Host(name)
