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
from tare.workloads.net_address import free_port, listens, local_address
from tare.workloads.network import peer_of

PACKAGES = ("iperf3", "libiperf0")
#: seconds of warm-up that iperf3 leaves out, and of one interval, whose rate is one sample
OMIT_SECONDS, INTERVAL_SECONDS = 1, 0.1
CONNECT_MILLISECONDS = 5000
#: largest share by which the measured time may differ from the one asked for
TIME_TOLERANCE = 0.1
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
        address = local_address(str(peer_of(request)["bind"]))
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
        return {"connected": _ends(printed)}

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
        self.local = local_address(str(self.peer["bind"]))
        self.words = client_command(request, self.local)
        self.copy_rate = copy_rate()
        self.result: Dict[str, Any] = {}
        self.stderr = ""

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
        self.stderr = done.stderr.decode("utf-8", "replace").strip()
        try:
            self.result = json.loads(done.stdout.decode("utf-8", "replace"))
        except ValueError:
            self.result = {"error": "iperf3 ended with status %d and printed no JSON" % done.returncode}
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return bytes received per second in each interval after the warm-up."""
        return [
            {
                "metric": "received_bytes_per_second",
                "phase": "steady",
                "epoch": None,
                "index": index,
                "value": value,
                "unit": "B/s",
            }
            for index, value in enumerate(rates(self.result))
        ]

    def check(self) -> Check:
        """Return whether iperf3 measured what was asked for, and what it says about the connection."""
        if self.result.get("error"):
            return Check(["iperf3: %s" % " ".join(filter(None, (self.result["error"], self.stderr)))], {})
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
    words = [program(), "--client", str(peer["address"]), "--port", str(peer["port"]), "--bind", local, "--json",
             "--get-server-output", "--time", str(factors["seconds"]), "--omit", str(OMIT_SECONDS),
             "--interval", str(INTERVAL_SECONDS), "--parallel", str(factors["streams"]),
             "--length", str(factors["bytes"]), "--connect-timeout", str(CONNECT_MILLISECONDS)]  # fmt: skip
    bound = [cpus[at] for at in (rank["client"], rank["server"]) if at is not None]
    return [*words, "--affinity", "%d,%d" % (bound[0], bound[1])] if bound else words


def rates(result: Mapping[str, Any]) -> List[float]:
    """Return the bytes per second that the server received in each interval after the warm-up.

    What is left of the time after the last whole interval is none.
    """
    sums = [one["sum"] for one in result.get("server_output_json", {}).get("intervals", [])]
    return [
        one["bytes"] / one["seconds"]
        for one in sums
        if not one["omitted"] and one["seconds"] > INTERVAL_SECONDS / 2
    ]


def reasons(result: Mapping[str, Any], asked: Mapping[str, Any], limit: float) -> List[str]:
    """Return why the result is no number; ``limit`` is what the memory carries, in B/s."""
    found = []
    received, server = result["end"]["sum_received"], result.get("server_output_json", {})
    if server.get("error"):
        found.append("iperf3's server: %s" % server["error"])
    if abs(received["seconds"] / asked["seconds"] - 1) > TIME_TOLERANCE:
        found.append("%.3f s were measured, asked for were %d s" % (received["seconds"], asked["seconds"]))
    values = rates(result)
    if not values or min(values) <= 0:
        found.append("an interval without a byte received; the path is broken or the machine was halted")
    if max(values, default=0) > limit:
        found.append(
            "%.3g B/s is more than the memory of this machine carries (%.3g B/s): the bytes were not moved"
            % (max(values), limit)
        )
    versions = {asked.get("version"), result["start"].get("version"), server.get("start", {}).get("version")}
    if len(versions) != 1:
        found.append("the ends run different iperf3 versions: %s" % ", ".join(sorted(map(str, versions))))
    for end in _ends(result):
        if (end[0], end[2], end[3]) != (asked["local"], asked["address"], asked["port"]):
            found.append("connected were %s:%d and %s:%d, asked for was %s to %s:%d"
                         % (*end, asked["local"], asked["address"], asked["port"]))  # fmt: skip
    started = result["start"]["test_start"]
    for name, key in (("streams", "num_streams"), ("bytes", "blksize"), ("seconds", "duration")):
        if started[key] != asked[name]:
            found.append("%s is %d, asked for was %d" % (name, started[key], asked[name]))
    return found


def facts(result: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what describes the connection: ends, buffers, segment size, retransmits, totals, CPU shares.

    ``work`` is what was done, the rest what was found.
    """
    start, end = result["start"], result["end"]
    started = start["test_start"]
    return {
        "work": {
            "streams": started["num_streams"],
            "bytes": started["blksize"],
            "seconds": started["duration"],
            "warm_up_seconds": started["omit"],
        },
        "connected": _ends(result),
        "segment_bytes": start.get("tcp_mss_default"),
        "send_buffer_bytes": start.get("sndbuf_actual"),
        "receive_buffer_bytes": start.get("rcvbuf_actual"),
        "retransmits": end["sum_sent"].get("retransmits"),
        "received_bytes": end["sum_received"]["bytes"],
        "measured_seconds": end["sum_received"]["seconds"],
        "cpu_percent": end.get("cpu_utilization_percent"),
    }


def _ends(result: Mapping[str, Any]) -> List[List[Any]]:
    """Return [local address, local port, remote address, remote port] of every connection."""
    names = ("local_host", "local_port", "remote_host", "remote_port")
    return [[one[name] for name in names] for one in result["start"]["connected"]]


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
