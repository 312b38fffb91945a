"""A variant of the host: its processes on two nodes made of network namespaces, joined by a VXLAN.

The peer that serves is on one node, the run on the other. Whoever starts first makes both nodes and removes them
at its end; the namespaces of a process that was killed go with the next sweep.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tare.processes import OWNER
from tare.runtimes import overlay_network
from tare.runtimes.base import LaunchError, LaunchSpec, Outcome, Running, RunRequest, Stack, Unavailable
from tare.runtimes.host import Host
from tare.runtimes.process import start_process


class HostVxlan(Host):
    """Starts the worker as a process of this machine inside a node's network namespace."""

    def unavailable(self, stack: Stack) -> Unavailable | None:
        """Return why the stack has no host form here, or no overlay can be made; None when both are there."""
        return super().unavailable(stack) or _unavailable()

    def specify(self, request: RunRequest) -> LaunchSpec:
        """Return the host's launch, on the node of this role. Pure."""
        plain = super().specify(request)
        # A run without a peer is a client without a server: it makes and removes the nodes itself.
        node = overlay_network.SERVER if request.role == "server" else overlay_network.CLIENT
        return replace(
            plain,
            network=f"interface:{overlay_network.OVERLAY}",
            options={**plain.options, "node": node, "makes_nodes": request.role != "client"},
        )

    def start(self, spec: LaunchSpec) -> Running:
        """Make the nodes where this run is the first, then fork, enter the namespace and execute."""
        owner, first = spec.environment[OWNER], bool(spec.options["makes_nodes"])
        namespace = overlay_network.name(owner, spec.options["node"])
        try:
            if first:
                overlay_network.remove(owner)
                overlay_network.make(owner)
            running = start_process(spec, functools.partial(overlay_network.enter, namespace))
        except overlay_network.NetworkError as error:
            raise LaunchError(f"{spec.runtime}: {error}") from None
        except BaseException:
            if first:
                overlay_network.remove(owner)
            raise
        return _OnNodes(running, owner) if first else running


class _OnNodes:
    """A run that takes both nodes with it when it is closed (see ``Running``)."""

    def __init__(self, running: Running, owner: str) -> None:
        self._running, self._owner = running, owner
        self.exit_fd = running.exit_fd

    def wait(self, seconds: float | None = None) -> Outcome | None:
        """Return how the run ended, or None when ``seconds`` pass first."""
        return self._running.wait(seconds)

    def kill(self) -> None:
        """End the run and everything it started."""
        self._running.kill()

    def close(self) -> None:
        """End what is left of the run, give back its descriptors and remove the nodes."""
        try:
            self._running.close()
        finally:
            overlay_network.remove(self._owner)


@functools.lru_cache(maxsize=1)
def _unavailable() -> Unavailable | None:
    """Return why no overlay can be made here, or None; tried once per process."""
    found = overlay_network.obstacle()
    return None if found is None else Unavailable(found[0], f"{found[1]}, or leave this variant out")
