"""A variant of the host: its processes on two nodes made of network namespaces, joined by a VXLAN.

The peer that serves is on one node, the run on the other. Whoever starts first makes both nodes and removes them
at its end; the namespaces of a process that was killed go with the next sweep.
"""

from __future__ import annotations

import functools
import subprocess
from dataclasses import replace

from tare.processes import OWNER
from tare.runtimes import overlay_network
from tare.runtimes.base import CLIENT, LaunchError, LaunchSpec, Running, RunRequest, Stack, Unavailable
from tare.runtimes.host import Host
from tare.runtimes.process import ProcessRunning, start_process


class HostVxlan(Host):
    """Starts the worker as a process of this machine inside a node's network namespace."""

    def unavailable(self, stack: Stack) -> Unavailable | None:
        """Return why the stack has no host form here, or no overlay can be made; None when both are there."""
        return super().unavailable(stack) or _unavailable()

    def specify(self, request: RunRequest) -> LaunchSpec:
        """Return the host's launch, on the node of this role. Pure."""
        plain = super().specify(request)
        # A run without a peer is a client without a server: it makes and removes the nodes itself.
        node = request.role or CLIENT
        return replace(
            plain,
            network=f"interface:{overlay_network.OVERLAY}",
            options={**plain.options, "node": node, "makes_nodes": request.role != CLIENT},
        )

    def start(self, spec: LaunchSpec) -> Running:
        """Make the nodes where this run is the first, then fork, enter the namespace and execute."""
        owner, first = spec.environment[OWNER], bool(spec.options["makes_nodes"])
        namespace = overlay_network.name(owner, spec.options["node"])
        try:
            if first:
                overlay_network.remove(owner)
                overlay_network.make(owner)
            prepare = functools.partial(overlay_network.enter, namespace)
            return start_process(spec, prepare, _OnNodes if first else None)
        except overlay_network.NetworkError as error:
            raise LaunchError(f"{spec.runtime}: {error}") from None
        except BaseException:
            if first:
                overlay_network.remove(owner)
            raise


class _OnNodes(ProcessRunning):
    """A run that takes both nodes with it when it is closed."""

    def __init__(self, popen: subprocess.Popen[bytes], spec: LaunchSpec, requested_ns: int) -> None:
        super().__init__(popen, spec, requested_ns)
        self._owner = spec.environment[OWNER]

    def close(self) -> None:
        """End what is left of the run, give back its descriptors and remove the nodes."""
        try:
            super().close()
        finally:
            overlay_network.remove(self._owner)


@functools.lru_cache(maxsize=1)
def _unavailable() -> Unavailable | None:
    """Return why no overlay can be made here, or None; tried once per process."""
    found = overlay_network.obstacle()
    return None if found is None else Unavailable(found[0], f"{found[1]}, or leave this variant out")
