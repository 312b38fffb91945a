"""Was a run disturbed? Judged from the machine's counters alone, never from what was measured.

The counters are those of worker/PROTOCOL.md, read at ``ready`` and at ``end``. A flag keeps the run and has its
block repeated, so every limit stands in the config and every flag says value, limit and remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tare.config import Disturbance

#: /proc/stat counts in ticks of 10 ms: a shorter window says nothing
SHORTEST_SECONDS = 0.2

Counters = Mapping[str, Any]


def judge(
    ready: Counters, end: Counters, elapsed_seconds: float, cpus: int, limits: Disturbance
) -> list[str]:
    """Return the flags of a run, empty for a quiet one; ``cpus`` are those of the machine, not of the run.

    A counter that the kernel does not tell is not judged, nor is a window under 0.2 s.
    """
    if elapsed_seconds < SHORTEST_SECONDS:
        return []
    window = _Window(ready, end, elapsed_seconds, cpus)
    return [flag for check in CHECKS if (flag := check(window, limits)) is not None]


def grown(ready: Counters, end: Counters) -> dict[str, float | None]:
    """Return how much each counter of ``end`` grew since ``ready``; None where the kernel does not tell."""
    window = _Window(ready, end, 0.0, 0)
    return {name: window.grown(name) for name in end}


def joined(ready: Counters, end: Counters, peer: Counters) -> dict[str, float | None]:
    """Return ``end`` as if what a run's peer used (``peer``: growth of its counters) were the run's own.

    The peer's window holds the run's and little more, in which it waits: its CPU time is not other processes'. Nor
    is the kernel's work on packets (soft interrupts): where the kernel charges it to the process that it interrupts,
    it counts twice here, and other processes may use that much more unseen. A peer that was throttled throttled the
    run; both may be in one group, so that the larger of both counts.
    """
    window = _Window(ready, end, 0.0, 0)
    own, softirq, theirs = (
        end.get("own_cpu_seconds"),
        window.grown("softirq_seconds"),
        peer.get("own_cpu_seconds"),
    )
    merged: dict[str, float | None] = dict(end)
    merged["own_cpu_seconds"] = None if own is None or theirs is None else own + theirs + (softirq or 0.0)
    throttled = [
        one for one in (window.grown("throttled_seconds"), peer.get("throttled_seconds")) if one is not None
    ]
    before = ready.get("throttled_seconds") or 0.0
    merged["throttled_seconds"] = before + max(throttled) if throttled else None
    return merged


class _Window:
    """The growth of counters between two readings."""

    def __init__(self, ready: Counters, end: Counters, seconds: float, cpus: int) -> None:
        self._ready, self._end = ready, end
        self.seconds = seconds
        self.cpu_seconds = seconds * cpus

    def grown(self, name: str) -> float | None:
        """Return how much a counter grew (never negative: some step back a tick), None when it is not told."""
        before, after = self._ready.get(name), self._end.get(name)
        return None if before is None or after is None else max(0.0, float(after) - float(before))


def _others(window: _Window, limits: Disturbance) -> str | None:
    busy, own = window.grown("busy_seconds"), window.grown("own_cpu_seconds")
    if busy is None or own is None:
        return None
    share = max(0.0, busy - own) / window.cpu_seconds
    if share <= limits.others_cpu:
        return None
    return (
        f"disturbed: other processes used {share:.0%} of the CPU time (limit {limits.others_cpu:.0%}); "
        "stop other work on this machine"
    )


def _steal(window: _Window, limits: Disturbance) -> str | None:
    stolen = window.grown("steal_seconds")
    if stolen is None or stolen / window.cpu_seconds <= limits.steal:
        return None
    return (
        f"disturbed: the hypervisor took {stolen / window.cpu_seconds:.0%} of the CPU time (limit {limits.steal:.0%}); "
        "measure when its other guests are quiet, or on a machine of your own"
    )


def _throttled(window: _Window, limits: Disturbance) -> str | None:
    throttled = window.grown("throttled_seconds")
    if throttled is None or throttled / window.seconds <= limits.throttled:
        return None
    return (
        f"disturbed: the CPU quota throttled the run for {throttled / window.seconds:.0%} of its time "
        f"(limit {limits.throttled:.0%}); use fewer threads than the quota allows, or lift the quota"
    )


def _swapped(window: _Window, limits: Disturbance) -> str | None:
    moved = [
        grown for name in ("swap_in_pages", "swap_out_pages") if (grown := window.grown(name)) is not None
    ]
    if not moved or sum(moved) <= limits.swap_pages:
        return None
    return (
        f"disturbed: {sum(moved):.0f} pages were swapped in or out (limit {limits.swap_pages}); "
        "free memory, or use smaller levels of the factors"
    )


#: each check looks at one kind of disturbance; the order is that of the flags
CHECKS: tuple[Callable[[_Window, Disturbance], str | None], ...] = (_others, _steal, _throttled, _swapped)
