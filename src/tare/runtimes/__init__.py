"""How a process of a stack is started: one object per runtime, by the names of the config."""

from __future__ import annotations

from tare.config import nearest
from tare.runtimes.base import RuntimeClass
from tare.runtimes.chroot import Chroot, ChrootUserns
from tare.runtimes.container import DOCKER, DOCKER_HARDENED, DOCKER_PURE
from tare.runtimes.host import Host

RUNTIMES: dict[str, RuntimeClass] = {
    runtime.name: runtime
    for runtime in (Host(), Chroot(), ChrootUserns(), DOCKER, DOCKER_PURE, DOCKER_HARDENED)
}


def get(name: str) -> RuntimeClass:
    """Return the runtime of this name; raises ``KeyError`` naming the nearest and all allowed ones."""
    try:
        return RUNTIMES[name]
    except KeyError:
        raise KeyError(f"unknown runtime {name!r}; {nearest(name, RUNTIMES)}") from None
