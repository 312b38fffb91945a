"""Reads what a worker wrote (worker/PROTOCOL.md) and says whether it counts. Pure: a file in, values or reasons out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare import event_shapes
from tare.event_shapes import is_count

NANOSECOND = 1e-9


class EventError(ValueError):
    """The event file is missing, cut off or not of the protocol; the message is the run's reason."""


@dataclass(frozen=True)
class Sample:
    """One value: an epoch, an iteration, a tool's figure. ``epoch`` samples know what they read."""

    phase: str
    epoch: int | None
    index: int
    metric: str
    unit: str
    value: float
    device_read_bytes: int | None = None


@dataclass(frozen=True)
class Events:
    """A worker's events; what it did not come to is None."""

    start_ns: int | None = None
    ready_ns: int | None = None
    ready_counters: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    check: Mapping[str, Any] | None = None
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    @property
    def end_counters(self) -> Mapping[str, Any]:
        """The counters read at `end`; empty when the worker did not come so far."""
        return (self.end or {}).get("counters") or {}

    def reasons(self) -> list[str]:
        """Return why this run has no number; empty when it counts."""
        if self.error is not None:
            return [f"worker: {self.error.get('kind', 'error')}: {self.error.get('message', '')}"]
        missing = [
            name
            for name, value in (
                ("start", self.start_ns),
                ("ready", self.ready_ns),
                ("check", self.check),
                ("end", self.end),
            )
            if value is None
        ]
        if missing:
            return [f"worker: no event {', '.join(missing)}: it ended before its work was done"]
        assert self.check is not None
        reasons = [str(reason) for reason in self.check.get("reasons", [])]
        if self.check.get("ok") is not True and not reasons:
            reasons = ["worker: its own check failed without a reason"]
        return reasons


def judge_events(path: Path) -> tuple[Events, list[str]]:
    """Return the events of a run and why it has no number by them; a file that cannot be read gives no events."""
    try:
        events = read_events(path)
        return events, events.reasons()
    except EventError as error:
        return Events(), [str(error)]


def read_events(path: Path) -> Events:
    """Return the events of a run; raises ``EventError`` for a file that is absent or not of the protocol."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise EventError("worker wrote no events: it was killed or never came to its first line") from None
    except (UnicodeDecodeError, OSError) as error:
        raise EventError(f"worker's events cannot be read: {error}") from None
    found: dict[str, Any] = {}
    samples: list[Sample] = []
    for number, event in _objects(text):
        kind = event.get("event")
        if kind == "sample":
            samples.append(_sample(event, number))
        elif isinstance(kind, str) and kind not in found:
            found[kind] = event
        else:
            raise EventError(f"worker's events, line {number}: event {kind!r} is unknown or comes twice")
    for kind, event in found.items():
        misfit = event_shapes.misfit(kind, event)
        if misfit:
            raise EventError(f"worker's events: {misfit}")
    ready = found.get("ready", {})
    return Events(
        start_ns=_integer(found, "start"),
        ready_ns=_integer(found, "ready"),
        ready_counters=ready.get("counters") or {},
        samples=tuple(samples),
        check=found.get("check"),
        fingerprint=found.get("fingerprint", {}),
        end=found.get("end"),
        error=found.get("error"),
    )


def _objects(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            event = json.loads(line)
        except ValueError:
            raise EventError(f"worker's events, line {number}: not JSON: {line[:80]!r}") from None
        if not isinstance(event, dict):
            raise EventError(f"worker's events, line {number}: not an object: {line[:80]!r}")
        yield number, event


def _integer(found: Mapping[str, Any], kind: str) -> int | None:
    if kind not in found:
        return None
    value = found[kind].get("ns")
    if not isinstance(value, int) or isinstance(value, bool):
        raise EventError(f"worker's events: {kind} has no whole number of ns (given: {value!r})")
    return value


def _sample(event: Mapping[str, Any], number: int) -> Sample:
    try:
        if "ns" in event:
            unit, value = "s", int(event["ns"]) * NANOSECOND
        else:
            unit, value = str(event["unit"]), float(event["value"])
        read = event.get("device_read_bytes")
        if not is_count(event["index"]) or not (read is None or is_count(read)):
            raise ValueError("index and device_read_bytes are whole numbers")
        sample = Sample(
            phase=str(event["phase"]),
            epoch=None if event.get("epoch") is None else int(event["epoch"]),
            index=int(event["index"]),
            metric=str(event["metric"]),
            unit=unit,
            value=value,
            device_read_bytes=read,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EventError(f"worker's events, line {number}: not a sample ({error!r})") from None
    if not math.isfinite(sample.value) or sample.value <= 0:
        raise EventError(
            f"worker's events, line {number}: {sample.metric} is {sample.value}, must be finite and > 0"
        )
    return sample
