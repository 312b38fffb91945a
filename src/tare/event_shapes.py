"""What the values of a worker's events must be (worker/PROTOCOL.md), so that nothing behind them meets a surprise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

#: what a column of the tables holds
LARGEST_INTEGER = 2**63 - 1


def is_count(value: object) -> bool:
    """Return whether ``value`` is a whole number from 0 that a table can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_INTEGER


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _are_counters(value: object) -> bool:
    return isinstance(value, dict) and all(item is None or _is_number(item) for item in value.values())


#: event → key → (what its value must be, unless it is null or absent; the same in words)
SHAPES: Mapping[str, Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "ready": {"counters": (_are_counters, "an object of numbers")},
    "check": {"reasons": (_are_texts, "a list of texts"), "facts": (_is_object, "an object")},
    "fingerprint": {
        "process": (_is_object, "an object"),
        "software": (_is_object, "an object"),
        "libraries": (_are_texts, "a list of texts"),
    },
    "end": {
        "ns": (is_count, "a whole number"),
        "leaving_ns": (is_count, "a whole number"),
        "counters": (_are_counters, "an object of numbers"),
        "cpu_seconds": (_is_number, "a number"),
        "max_rss_bytes": (is_count, "a whole number"),
        "device_read_bytes": (is_count, "a whole number"),
    },
}
NEVER_NULL = {("check", "reasons"), ("check", "facts"), ("end", "ns")}


def misfit(kind: str, event: Mapping[str, Any]) -> str | None:
    """Return which value of an event is not what it must be, or None when all are."""
    for key, (fits, words) in SHAPES.get(kind, {}).items():
        value = event.get(key)
        if not fits(value) and (value is not None or (kind, key) in NEVER_NULL):
            return f"{key} of {kind} must be {words} (given: {str(value)[:80]!r})"
    return None
