"""`net-tcp` and `net-latency`: what the network path between two instances of one runtime carries, and how fast.

Both instances are runs of their own; the peer serves (PROTOCOL.md, `peer`). The path is a property of the runtime:
loopback on the host, the engine's bridge between two containers, an overlay between two network namespaces.
"""

from __future__ import annotations

from typing import Any, Mapping

from tare.worker.request import Request
from tare.worker.task import Task
from tare.workloads.declaration import Factor, Metric, Workload

SECONDS = Factor(2, (), "how long is measured, after the warm-up")
PLACEMENT = Factor(
    "apart",
    ("apart", "together", "free"),
    "CPUs of client and server: apart (first and second CPU of the affinity mask), together (both on the first), "
    "free (the scheduler's choice)",
)

WORKLOADS = (
    Workload(
        name="net-tcp",
        title="TCP throughput",
        stack="hpc",
        adapter=__name__,
        factors={
            "bytes": Factor(131072, (), "bytes handed to the socket in each call"),
            "streams": Factor(1, (), "TCP connections at a time"),
            "seconds": SECONDS,
            "placement": PLACEMENT,
        },
        metrics=(Metric("received_bytes_per_second", "steady", "B/s", False, "TCP throughput"),),
        layer="network",
        expected_seconds=4.5,
        peer=True,
    ),
    Workload(
        name="net-latency",
        title="Network round trip",
        stack="hpc",
        adapter=__name__,
        factors={
            "bytes": Factor(1, (), "message size, sent and sent back"),
            "protocol": Factor("tcp", ("tcp", "udp"), "tcp (with TCP_NODELAY) or udp"),
            "seconds": SECONDS,
            "placement": PLACEMENT,
        },
        metrics=(
            Metric("round_trip_seconds", "steady", "s", True, "round trip, median"),
            Metric("round_trip_p99_seconds", "steady", "s", True, "round trip, 99th percentile"),
        ),
        layer="network",
        expected_seconds=3.0,
        native="pingpong",
        peer=True,
    ),
)


def set_up(request: Request) -> Task:
    """Return the client or the server that ``request`` names; a server listens already."""
    from tare.workloads import iperf3, pingpong  # the measuring side reads the declarations alone

    tool = iperf3 if request.workload == "net-tcp" else pingpong
    task: Task = tool.client(request) if peer_of(request)["role"] == "client" else tool.server(request)
    return task


def peer_of(request: Request) -> Mapping[str, Any]:
    """Return `peer` of the request; raises ``ValueError`` without one."""
    if request.peer is None:
        raise ValueError("%s needs a peer; the request must have `peer` (PROTOCOL.md)" % request.workload)
    return request.peer
