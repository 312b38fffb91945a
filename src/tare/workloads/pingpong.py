"""`net-latency`: our ping-pong over TCP or UDP, one message under way at a time (native/pingpong)."""

from __future__ import annotations

import os
import socket
from typing import Any, Dict, Iterator, List, Mapping

from tare.worker.cgroup import read_text
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import native, net_peer
from tare.workloads.net_address import local_address
from tare.workloads.network import peer_of
from tare.workloads.samples import steady

PROGRAM = "pingpong"
#: a median below so many steps of the clock is the clock's, not the network's
CLOCK_STEPS = 10
#: what a run takes beyond the seconds asked for, at most: warm-up, start, ends
SPARE_SECONDS = 60


def arguments(request: Request, role: str) -> Dict[str, native.Value]:
    """Return what both roles are told; raises ``PlacementError``."""
    factors = request.factors
    rank = net_peer.ranks(str(factors["placement"]), len(os.sched_getaffinity(0)))[role]
    common: Dict[str, native.Value] = {
        "role": role,
        "protocol": factors["protocol"],
        "bytes": factors["bytes"],
    }
    return common if rank is None else {**common, "cpu": rank}


class PingPongServer(net_peer.Server):
    """Sends back what it receives, on a socket that listens before the program starts: no port can be taken away."""

    def __init__(self, request: Request) -> None:
        address = local_address(peer_of(request)["bind"])
        kind = socket.SOCK_STREAM if request.factors["protocol"] == "tcp" else socket.SOCK_DGRAM
        with socket.socket(socket.AF_INET, kind) as listening:
            listening.bind((address, 0))
            if kind == socket.SOCK_STREAM:
                listening.listen(1)
            told = {**arguments(request, "server"), "socket": listening.fileno()}
            super().__init__(request, native.command(request, PROGRAM, told), [listening.fileno()])
            port = listening.getsockname()[1]
        self.program, self.protocol = native.software(PROGRAM, request), str(request.factors["protocol"])
        net_peer.publish(request.output, {"address": address, "port": port})

    def facts(self, printed: Mapping[str, Any]) -> Dict[str, Any]:
        """Return both ends as the server saw them, its CPU, and how many messages it sent back."""
        return dict(printed)

    def software(self) -> Dict[str, Any]:
        """Return the program and what the kernel does to its packets."""
        return {PROGRAM: self.program, **kernel(self.protocol)}


class PingPong(Task):
    """The client: it has the clock."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.request, self.peer = request, peer_of(request)
        self.local = local_address(self.peer["bind"])
        self.told = {
            **arguments(request, "client"),
            "local": self.local,
            "address": self.peer["address"],
            "port": self.peer["port"],
            "seconds": request.factors["seconds"],
        }
        self.result: Dict[str, Any] = {}

    def steps(self, epoch: int) -> Iterator[None]:
        """Run the program once."""
        limit = float(self.request.factors["seconds"]) + SPARE_SECONDS
        self.result = native.run(self.request, PROGRAM, self.told, timeout=limit)
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return median and 99th percentile of every batch of round trips, in seconds."""
        return [
            *steady("round_trip_seconds", "s", self.result["batch_median_seconds"]),
            *steady("round_trip_p99_seconds", "s", self.result["batch_p99_seconds"]),
        ]

    def check(self) -> Check:
        """Return whether a clock can have measured these times, and which ends were connected."""
        facts = {name: value for name, value in self.result.items() if not name.startswith("batch_")}
        work: Dict[str, Any] = {name: facts.pop(name) for name in ("protocol", "bytes", "bound")}
        work["placement"] = self.request.factors["placement"]
        return Check(reasons(self.result, self.told), {**facts, "work": work})

    def software(self) -> Dict[str, Any]:
        """Return the program and what the kernel does to its packets."""
        found = kernel(str(self.request.factors["protocol"]))
        return {PROGRAM: native.software(PROGRAM, self.request), **found}


def reasons(result: Mapping[str, Any], told: Mapping[str, Any]) -> List[str]:
    """Return why the result is no number; empty when it is one."""
    found = []
    quantiles, step = result["quantiles_seconds"], result["clock_granularity_seconds"]
    if not quantiles["min"] > 0:
        found.append("a round trip took %r s: a latency of 0 is a fault of the clock" % quantiles["min"])
    elif quantiles["p50"] < CLOCK_STEPS * step:
        found.append(
            "the median round trip of %.3g s is less than %d steps of the clock (%.3g s each); "
            "use a finer clock source or a larger message" % (quantiles["p50"], CLOCK_STEPS, step)
        )
    for end, name in (("local", "local_address"), ("address", "remote_address")):
        if result[name] != told[end]:
            found.append("%s is %s, asked for was %s" % (name, result[name], told[end]))
    return found


def kernel(protocol: str, path: str = "/proc/sys/net/ipv4/tcp_congestion_control") -> Dict[str, Any]:
    """Return the congestion control of this network namespace; nothing for udp, which has none.

    One that spaces packets by a clock (bbr) makes messages of many packets slower than the path would.
    """
    return {"tcp_congestion": (read_text(path) or "").strip() or None} if protocol == "tcp" else {}


def client(request: Request) -> Task:
    """Return the client."""
    return PingPong(request)


def server(request: Request) -> Task:
    """Return the server; it listens."""
    return PingPongServer(request)
