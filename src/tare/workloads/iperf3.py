"""`net-tcp`: iperf3, wrapped; it times itself. What counts is what the server received."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from typing import Any, Dict, Iterator, List, Mapping

from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import net_peer, tool
from tare.workloads.hpc_software import debian_packages
from tare.workloads.iperf3_output import INTERVAL_SECONDS, ends, facts, rates, reasons
from tare.workloads.net_address import free_port, listens, local_address
from tare.workloads.network import peer_of
from tare.workloads.samples import steady

PACKAGES = ("iperf3", "libiperf0")
OMIT_SECONDS = 1  # of warm-up, which iperf3 leaves out
CONNECT_MILLISECONDS = 5000
ATTEMPTS, LISTEN_SECONDS, POLL_SECONDS = 5, 10.0, 0.005
SPARE_SECONDS = 60
#: of the buffers that are copied to learn what memory carries: beyond every cache but the largest
COPY_BYTES, COPIES = 64 * 1024**2, 3


class Iperf3Error(RuntimeError):
    """iperf3 is no release, or does not come to listen; the message says what was seen."""


def program() -> str:
    """Return iperf3's path; raises ``tool.ToolError`` where it is not installed."""
    return tool.find("iperf3", "iperf3")


def version() -> str:
    """Return iperf3's version as its JSON states it, e.g. ``iperf 3.12``."""
    said = subprocess.run([program(), "--version"], stdout=subprocess.PIPE, check=True).stdout
    match = re.match(r"iperf \S+", said.decode("utf-8", "replace"))
    if match is None:
        raise Iperf3Error("iperf3 --version says %r; a release of iperf3 is needed" % said[:80])
    return match.group(0)


class Iperf3Server(net_peer.Server):
    """Serves one test and ends."""

    def __init__(self, request: Request) -> None:
        address = local_address(peer_of(request)["bind"])
        for _ in range(ATTEMPTS):
            port = free_port(address)
            super().__init__(request, server_command(address, port), [])
            if self._listening(address, port):
                break
        else:
            raise Iperf3Error(
                "iperf3 does not listen at %s after %d attempts: %s%s"
                % (address, ATTEMPTS, self.said("stdout")[-300:], self.said("stderr")[-300:])
            )
        net_peer.publish(request.output, {"address": address, "port": port, "version": version()})

    def _listening(self, address: str, port: int) -> bool:
        """Return True when the child listens, False when it ended; one that does neither is ended."""
        deadline = time.monotonic() + LISTEN_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            if listens(self.process.pid, address, port):
                return True
            time.sleep(POLL_SECONDS)
        self.process.kill()
        self.process.wait()
        return False

    def facts(self, printed: Mapping[str, Any]) -> Dict[str, Any]:
        """Return both ends as the server saw them."""
        return {"connected": ends(printed)}

    def software(self) -> Dict[str, Any]:
        """Return iperf3's version and package."""
        return {"iperf3": version(), "packages": debian_packages(PACKAGES)}


def server_command(address: str, port: int) -> List[str]:
    """Return the server's command line."""
    return [program(), "--server", "--one-off", "--json", "--bind", address, "--port", str(port),
            "--interval", str(INTERVAL_SECONDS)]  # fmt: skip


class Iperf3(Task):
    """The client."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.request, self.peer = request, peer_of(request)
        self.local = local_address(self.peer["bind"])
        self.words = client_command(request, self.local)
        self.copy_rate = copy_rate()
        self.result: Dict[str, Any] = {}

    def steps(self, epoch: int) -> Iterator[None]:
        """Run iperf3 once. Its status says nothing: with --json it is 0 after an error too."""
        done = subprocess.run(
            self.words,
            cwd=self.request.output,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=float(self.request.factors["seconds"]) + SPARE_SECONDS,
            check=False,
        )
        try:
            self.result = json.loads(done.stdout.decode("utf-8", "replace"))
        except ValueError:
            said = done.stderr.decode("utf-8", "replace").strip()[-300:]
            self.result = {"error": "no JSON, status %d: %s" % (done.returncode, said)}
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return bytes received per second in each interval after the warm-up."""
        return steady("received_bytes_per_second", "B/s", rates(self.result))

    def check(self) -> Check:
        """Return whether iperf3 measured what was asked for, and what it says about the connection."""
        limit = self.copy_rate * len(os.sched_getaffinity(0))
        asked = {**self.request.factors, "local": self.local, **self.peer}
        recorded = facts(self.result)
        recorded["copy_bytes_per_second"] = limit
        recorded["work"]["placement"] = self.request.factors["placement"]
        return Check(reasons(self.result, asked, limit), recorded)

    def software(self) -> Dict[str, Any]:
        """Return version and package, and the congestion control of both ends."""
        end = self.result.get("end", {})
        return {
            "iperf3": version(),
            "packages": debian_packages(PACKAGES),
            "tcp_congestion": [end.get("sender_tcp_congestion"), end.get("receiver_tcp_congestion")],
        }

    def libraries(self) -> List[str]:
        """Return iperf3 and what the loader maps for it."""
        return tool.libraries(program())


def client_command(request: Request, local: str) -> List[str]:
    """Return the client's command line; raises ``PlacementError``."""
    factors, peer = request.factors, peer_of(request)
    cpus = sorted(os.sched_getaffinity(0))
    rank = net_peer.ranks(str(factors["placement"]), len(cpus))
    words = [program(), "--client", peer["address"], "--port", str(peer["port"]), "--bind", local, "--json",
             "--get-server-output", "--time", str(factors["seconds"]), "--omit", str(OMIT_SECONDS),
             "--interval", str(INTERVAL_SECONDS), "--parallel", str(factors["streams"]),
             "--length", str(factors["bytes"]), "--connect-timeout", str(CONNECT_MILLISECONDS)]  # fmt: skip
    bound = [cpus[at] for at in (rank["client"], rank["server"]) if at is not None]
    return [*words, "--affinity", "%d,%d" % (bound[0], bound[1])] if bound else words


def copy_rate() -> float:
    """Return the bytes per second that one CPU copies between buffers larger than most caches; the best of some."""
    source, target = bytearray(b"\1") * COPY_BYTES, bytearray(COPY_BYTES)  # zeros never written are no memory
    best = float("inf")
    for _ in range(COPIES):
        begun = time.perf_counter()
        target[:] = source
        best = min(best, time.perf_counter() - begun)
    return COPY_BYTES / best


def client(request: Request) -> Task:
    """Return the client."""
    return Iperf3(request)


def server(request: Request) -> Task:
    """Return the server; it listens."""
    return Iperf3Server(request)
