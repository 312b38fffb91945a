"""What iperf3's JSON says: rates, what makes them no number, facts. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping

#: length of one interval, whose rate is one sample, in seconds
INTERVAL_SECONDS = 0.1
#: largest share by which the measured time may differ from the one asked for
TIME_TOLERANCE = 0.1
NEEDED = (
    ("start", "connected"),
    ("start", "test_start"),
    ("end", "sum_sent"),
    ("end", "sum_received"),
    ("server_output_json", "intervals"),
)


def rates(result: Mapping[str, Any]) -> List[float]:
    """Return the bytes per second that the server received in each interval after the warm-up.

    One without a byte (a process that waited for its CPU) is joined with the next, the last with the one before: no
    time is left out.
    """
    joined: List[List[float]] = []
    waited = 0.0
    for one in _intervals(result):
        if one["bytes"] > 0:
            joined.append([one["bytes"], waited + one["seconds"]])
            waited = 0.0
        else:
            waited += one["seconds"]
    if joined:
        joined[-1][1] += waited
    return [received / seconds for received, seconds in joined]


def _intervals(result: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """Return the server's intervals after the warm-up; what is left of the time after the last whole one is none."""
    sums = [one["sum"] for one in result.get("server_output_json", {}).get("intervals", [])]
    return [one for one in sums if not one["omitted"] and one["seconds"] > INTERVAL_SECONDS / 2]


def reasons(result: Mapping[str, Any], asked: Mapping[str, Any], limit: float) -> List[str]:
    """Return why the result is no number, empty when it is one.

    ``asked``: the factors, and `local`, `address`, `port` and `version` of the server; ``limit``: what the memory
    carries, in B/s. iperf3 ends with status 0 after an error too: only what it says counts.
    """
    if result.get("error"):
        return ["iperf3: %s" % result["error"]]
    lacking = ["%s.%s" % (part, key) for part, key in NEEDED if key not in result.get(part, {})]
    if lacking:
        return ["iperf3's JSON lacks %s; use iperf3 3.9 or later" % ", ".join(lacking)]
    return [*_done(result, asked), *_rates(result, limit), *_ends(result, asked)]


def _done(result: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    error = result["server_output_json"].get("error")
    if error:
        yield "iperf3's server: %s" % error
    seconds = result["end"]["sum_received"]["seconds"]
    if abs(seconds / asked["seconds"] - 1) > TIME_TOLERANCE:
        yield (
            "%.3f s were measured, asked for were %d s: the machine was halted or overloaded; measure again"
            % (seconds, asked["seconds"])
        )
    started = result["start"]["test_start"]
    for name, key in (("streams", "num_streams"), ("bytes", "blksize"), ("seconds", "duration")):
        if started[key] != asked[name]:
            yield "%s is %d, asked for was %d" % (name, started[key], asked[name])


def _rates(result: Mapping[str, Any], limit: float) -> Iterator[str]:
    intervals, empty, values = _intervals(result), empty_intervals(result), rates(result)
    if 2 * empty >= len(intervals):
        yield (
            "%d of %d intervals passed without a byte received; measure on a quiet machine"
            % (empty, len(intervals))
        )
    if max(values, default=0) > limit:
        yield (
            "%.3g B/s is more than the memory of this machine carries (%.3g B/s): the bytes were not moved"
            % (max(values), limit)
        )


def _ends(result: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    server = result["server_output_json"].get("start", {}).get("version")
    versions = sorted({str(asked.get("version")), str(result["start"].get("version")), str(server)})
    if len(versions) != 1:
        yield "the ends run different iperf3 versions: %s" % ", ".join(versions)
    connected = ends(result)
    if len(connected) != asked["streams"]:
        yield "%d connections were made, asked for were %d" % (len(connected), asked["streams"])
    for end in connected:
        if (end[0], end[2], end[3]) != (asked["local"], asked["address"], asked["port"]):
            yield (
                "connected were %s:%d and %s:%d, asked for was %s to %s:%d"
                % (*end, asked["local"], asked["address"], asked["port"])
            )


def empty_intervals(result: Mapping[str, Any]) -> int:
    """Return how many intervals after the warm-up passed without a byte received."""
    return sum(one["bytes"] <= 0 for one in _intervals(result))


def facts(result: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what describes the connection: ends, buffers, segment size, retransmits, totals, CPU shares.

    ``work`` is what was done, the rest what was found. Of a result that is no number it is what there is.
    """
    start, end = result.get("start", {}), result.get("end", {})
    started, received = start.get("test_start", {}), end.get("sum_received", {})
    return {
        "work": {
            "streams": started.get("num_streams"),
            "bytes": started.get("blksize"),
            "seconds": started.get("duration"),
            "warm_up_seconds": started.get("omit"),
        },
        "connected": ends(result),
        "segment_bytes": start.get("tcp_mss_default"),
        "send_buffer_bytes": start.get("sndbuf_actual"),
        "receive_buffer_bytes": start.get("rcvbuf_actual"),
        "empty_intervals": empty_intervals(result),
        "retransmits": end.get("sum_sent", {}).get("retransmits"),
        "received_bytes": received.get("bytes"),
        "measured_seconds": received.get("seconds"),
        "cpu_percent": end.get("cpu_utilization_percent"),
    }


def ends(result: Mapping[str, Any]) -> List[List[Any]]:
    """Return [local address, local port, remote address, remote port] of every connection."""
    names = ("local_host", "local_port", "remote_host", "remote_port")
    return [[one[name] for name in names] for one in result.get("start", {}).get("connected", [])]
