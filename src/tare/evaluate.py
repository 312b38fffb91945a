"""What a finished run adds to its row: does it count, and if not why; was it disturbed; its times and samples."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tare import backing, fingerprint, gpu
from tare.cache_level import CacheLevel
from tare.disturbance import grown, joined, judge
from tare.events import NANOSECOND, Events, Sample, judge_events
from tare.ground import BlockRequest, Ground
from tare.peer import Peer
from tare.run import Ended, exit_reasons
from tare.runtimes.base import CREATED, STARTED, Outcome
from tare.workloads.declaration import Workload


def evaluate(
    request: BlockRequest,
    ground: Ground,
    ended: Ended,
    folder: Path,
    cache: CacheLevel,
    peer: Peer | None = None,
) -> dict[str, Any]:
    """Return what the run adds to its row: status, reasons, flags, times (seconds), samples, fingerprint.

    A run whose ``peer`` did not do its part is none; its times and CPU seconds are its own, without the peer's.
    """
    reasons = exit_reasons(ended, folder)
    events, event_reasons = judge_events(folder / "events.jsonl")
    assembled = _fingerprint(ground, ended, events, peer)
    if events.fingerprint:
        event_reasons = [*event_reasons, *backing.reasons(request.spec, assembled["launch"]["backing"])]
    if peer is not None:
        event_reasons = [*event_reasons, *peer.reasons]
    failed = bool(reasons or events.error or events.end is None or (peer and peer.failed))
    # A worker that says it failed is the better reason; a bad exit without one stands for itself.
    status = "failed" if failed else ("invalid" if event_reasons else "ok")
    outcome, end = ended.outcome, events.end or {}
    total = (outcome.exited_ns - outcome.requested_ns) * NANOSECOND
    flags = _flags(request, events, cache, peer) if status == "ok" else []
    samples = _samples(request.spec, events, outcome) if status == "ok" else []
    return {
        "status": status,
        "reasons": event_reasons + reasons,
        "flags": flags,
        "seconds_to_start": _since(outcome.requested_ns, events.start_ns),
        "seconds_to_ready": _since(outcome.requested_ns, events.ready_ns),
        "seconds_total": total,
        "cpu_seconds": end.get("cpu_seconds"),
        "max_rss_bytes": end.get("max_rss_bytes"),
        "device_read_bytes": end.get("device_read_bytes"),
        "resident_before": cache.resident_before,
        "fingerprint": json.dumps(assembled, sort_keys=True),
        "samples": samples,
    }


def _fingerprint(ground: Ground, ended: Ended, events: Events, peer: Peer | None) -> dict[str, Any]:
    """Return the fingerprint and, beside it, what the kernel counted between `ready` and `end`: swap, faults, …"""
    assembled = fingerprint.assemble(
        node=ground.node,
        spec=ended.spec,
        outcome=ended.outcome,
        events=events.fingerprint,
        check=(events.check or {}).get("facts", {}),
        stack=ground.stack,
        data_sha256=ground.data_facts.get("sha256"),
    )
    counted = grown(events.ready_counters, events.end_counters)
    return {**assembled, "counters": counted, **({"peer": peer.facts()} if peer else {})}


def _flags(request: BlockRequest, events: Events, cache: CacheLevel, peer: Peer | None) -> list[str]:
    assert events.end is not None
    assert events.ready_ns is not None
    elapsed = (int(events.end["ns"]) - events.ready_ns) * NANOSECOND
    ended = events.end_counters
    if peer is not None and peer.events.end is not None:
        of_peer = grown(peer.events.ready_counters, peer.events.end_counters)
        ended = joined(events.ready_counters, ended, of_peer)
    disturbed = judge(
        events.ready_counters,
        ended,
        elapsed,
        os.cpu_count() or 1,
        request.disturbance,
    )
    own = gpu.flags((events.check or {}).get("facts", {})) if request.spec.gpu else []
    return [*disturbed, *(cache.flags(events) if request.spec.cached else []), *own]


def _samples(spec: Workload, events: Events, outcome: Outcome) -> list[dict[str, Any]]:
    own = _startup(events, outcome)
    startup = [
        Sample("startup", None, 0, metric.name, metric.unit, value)
        for metric in spec.metrics
        if metric.phase == "startup" and (value := own[metric.name]) is not None
    ]
    return [
        {name: getattr(sample, name) for name in ("phase", "epoch", "index", "metric", "unit", "value")}
        for sample in (*startup, *events.samples)
    ]


def _startup(events: Events, outcome: Outcome) -> dict[str, float | None]:
    """Return how long the steps of start and end took; None for a step that this runtime does not have.

    `create` and `first instruction` add up to `start`; the engine's call to start returns some time within the latter.
    """
    requested_ns, created_ns = outcome.requested_ns, outcome.moments.get(CREATED)
    return {
        "start_seconds": _since(requested_ns, events.start_ns),
        "total_seconds": _since(requested_ns, outcome.exited_ns),
        "create_seconds": _since(requested_ns, created_ns),
        "start_call_seconds": _since(created_ns, outcome.moments.get(STARTED)),
        "first_instruction_seconds": _since(created_ns, events.start_ns),
        "exit_seconds": _since((events.end or {}).get("leaving_ns"), outcome.exited_ns),
    }


def _since(origin_ns: int | None, ns: int | None) -> float | None:
    return None if ns is None or origin_ns is None else (ns - origin_ns) * NANOSECOND
