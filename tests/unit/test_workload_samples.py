"""Times of programs that time themselves: what makes one no time."""

from __future__ import annotations

import math

import pytest

from tare.workloads.samples import rates, steady, time_reasons

TICK = 1e-9


def test_samples_are_in_their_order() -> None:
    assert steady("stat_seconds", "s", [2.0, 1.0]) == [
        {"metric": "stat_seconds", "phase": "steady", "epoch": None, "index": 0, "value": 2.0, "unit": "s"},
        {"metric": "stat_seconds", "phase": "steady", "epoch": None, "index": 1, "value": 1.0, "unit": "s"},
    ]


def test_a_time_of_zero_gives_no_rate() -> None:
    assert rates(10, [2.0, 0.0, 5.0]) == [5.0, 2.0]


@pytest.mark.parametrize("seconds", [[0.0, 1e-6], [1e-6, -1e-6], [1e-6, math.inf], [1e-6, math.nan]])
def test_a_time_that_is_none_is_refused(seconds: list[float]) -> None:
    (reason,) = time_reasons("getpid", seconds, 2, 1000, TICK)
    assert reason.startswith("getpid: a time of ")
    assert reason.endswith(" s is none: the clock saw nothing")


@pytest.mark.parametrize("seconds", [[], [1e-6], [1e-6] * 3])
def test_another_number_of_times_is_refused(seconds: list[float]) -> None:
    assert time_reasons("read", seconds, 2, 1000, TICK) == [
        f"read: {len(seconds)} times instead of 2; look at the program's output"
    ]


def test_a_stretch_as_fine_as_the_clock_is_refused() -> None:
    assert time_reasons("stat", [1e-6] * 3, 3, 100, TICK) == []
    assert time_reasons("stat", [1e-6] * 3, 3, 100, 1e-6) == []  # exactly 100 steps
    assert time_reasons("stat", [1e-6] * 3, 3, 100, 4e-3) == [
        "stat: timed stretches last 0.0001 s, 100 steps of the clock (0.004 s) are needed: "
        "use a clock source with finer steps"
    ]
