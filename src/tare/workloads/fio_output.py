"""What fio's JSON says about one job (fio(1), OUTPUT; JSON fields with units in their names), read and judged."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple

from tare.workloads.samples import sample

#: name of a percentile in fio's JSON → the metric it gives
PERCENTILES = {
    "50.000000": "completion_seconds_p50",
    "99.000000": "completion_seconds_p99",
    "99.900000": "completion_seconds_p999",
}
#: share of the time (in %) that the asked depth must have been reached
DEPTH_PERCENT = 50.0


class OutputError(RuntimeError):
    """fio wrote no JSON of the documented form; the message shows what it wrote."""


class Job(NamedTuple):
    """One job: what it was told, and its numbers in one direction (``read`` or ``write``)."""

    options: Mapping[str, str]
    numbers: Mapping[str, Any]
    depths: Mapping[str, float]
    error: int
    version: str


def read_job(text: str, direction: str) -> Job:
    """Return the only job of fio's JSON; anything before or behind it is refused. Raises ``OutputError``."""
    try:
        whole = json.loads(text)
        (job,) = whole["jobs"]
        return Job(
            options={**whole.get("global options", {}), **job["job options"]},
            numbers=job[direction],
            depths=job["iodepth_level"],
            error=int(job["error"]),
            version=str(whole["fio version"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError("fio's JSON cannot be read (%r): %r" % (error, text[:200])) from None


def samples(job: Job) -> List[Dict[str, Any]]:
    """Return requests and bytes per second and the percentiles of completion latency (fio's ns) in seconds."""
    numbers = job.numbers
    percentiles = numbers["clat_ns"].get("percentile", {})
    found = [
        ("requests_per_second", float(numbers["iops"]), "request/s"),
        ("bytes_per_second", float(numbers["bw_bytes"]), "B/s"),
        *((name, percentiles[key] * 1e-9, "s") for key, name in PERCENTILES.items() if key in percentiles),
    ]
    return [sample(name, unit, value) for name, value, unit in found if value > 0]


def reasons(job: Job, engine: str, depth: int) -> List[str]:
    """Return why the job did not do what it was told: other engine, depth not reached, errors, short or no requests."""
    found = []
    used = job.options.get("ioengine")
    if used != engine:
        found.append(
            "fio ran with ioengine %s, not %s: the runtimes would not do the same work" % (used, engine)
        )
    if job.error:
        found.append("fio's job ended with error %d" % job.error)
    reached = float(job.depths.get(str(depth), 0.0))
    if reached < DEPTH_PERCENT:
        found.append(
            "queue depth %d was reached %.0f %% of the time (needs %.0f %%): requests were not asynchronous"
            % (depth, reached, DEPTH_PERCENT)
        )
    if job.numbers["short_ios"] or job.numbers["drop_ios"]:
        found.append(
            "fio counts %d short and %d dropped requests"
            % (job.numbers["short_ios"], job.numbers["drop_ios"])
        )
    if not job.numbers["total_ios"]:
        found.append("fio made no request in its time; raise the factor seconds")
    elif not job.numbers["clat_ns"]["min"] > 0:
        found.append("fio's shortest request took %r ns: no request was made" % job.numbers["clat_ns"]["min"])
    return found
