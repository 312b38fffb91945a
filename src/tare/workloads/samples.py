"""Samples of a program that timed itself, and what makes a time no time; pure."""

from __future__ import annotations

import math
import statistics
from typing import Any, Dict, List, Sequence

#: a timed stretch lasts at least so many steps of the clock, so that the clock adds less than 1 % to it
TICKS = 100


def sample(metric: str, unit: str, value: float, index: int = 0, phase: str = "steady") -> Dict[str, Any]:
    """Return one ``sample`` event of a program that timed itself (PROTOCOL.md)."""
    return {"metric": metric, "phase": phase, "epoch": None, "index": index, "value": value, "unit": unit}


def steady(metric: str, unit: str, values: Sequence[float]) -> List[Dict[str, Any]]:
    """Return the ``sample`` events of one metric, in the order they were taken."""
    return [sample(metric, unit, value, index) for index, value in enumerate(values)]


def rates(amount: float, seconds: Sequence[float]) -> List[float]:
    """Return amount ÷ seconds; a time of 0 gives none (``time_reasons`` refuses it)."""
    return [amount / value for value in seconds if value > 0]


def time_reasons(
    name: str, seconds: Sequence[float], expected: int, operations: int, tick: float
) -> List[str]:
    """Return why times of one operation (s) do not count: too few, none, or finer than the clock.

    ``expected``: how many there must be; ``operations``: how many operations each was taken over; ``tick``: the
    smallest step of the clock (s).
    """
    if len(seconds) != expected:
        return ["%s: %d times instead of %d; look at the program's output" % (name, len(seconds), expected)]
    if not all(math.isfinite(value) and value > 0 for value in seconds):
        return ["%s: a time of %g s is none: the clock saw nothing" % (name, min(seconds))]
    stretch = statistics.median(seconds) * operations
    if stretch < TICKS * tick:
        return [
            "%s: timed stretches last %.3g s, %d steps of the clock (%.3g s) are needed: "
            "use a clock source with finer steps" % (name, stretch, TICKS, tick)
        ]
    return []
