"""Flags of a disturbed run: exact texts, limits on either side, counters that are not told."""

from __future__ import annotations

import pytest

from tare.config import Disturbance
from tare.disturbance import joined, judge

LIMITS = Disturbance()
QUIET = {
    "busy_seconds": 100.0,
    "idle_seconds": 50.0,
    "steal_seconds": 1.0,
    "own_cpu_seconds": 10.0,
    "swap_in_pages": 7,
    "swap_out_pages": 8,
    "throttled_seconds": 0.5,
}


def grown(**by: float) -> dict[str, float]:
    return {name: value + by.get(name, 0) for name, value in QUIET.items()}


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ({}, []),
        ({"busy_seconds": 20, "own_cpu_seconds": 20}, []),
        ({"busy_seconds": 22, "own_cpu_seconds": 20}, []),  # 2 of 20 CPU seconds: exactly the limit
        (
            {"busy_seconds": 24.6, "own_cpu_seconds": 20},
            [
                "disturbed: other processes used 23% of the CPU time (limit 10%); "
                "stop other work on this machine"
            ],
        ),
        ({"steal_seconds": 1.0}, []),
        (
            {"steal_seconds": 2.0},
            [
                "disturbed: the hypervisor took 10% of the CPU time (limit 5%); "
                "measure when its other guests are quiet, or on a machine of your own"
            ],
        ),
        ({"throttled_seconds": 0.1}, []),
        (
            {"throttled_seconds": 0.5},
            [
                "disturbed: the CPU quota throttled the run for 5% of its time (limit 1%); "
                "use fewer threads than the quota allows, or lift the quota"
            ],
        ),
        (
            {"swap_in_pages": 1, "swap_out_pages": 2},
            [
                "disturbed: 3 pages were swapped in or out (limit 0); "
                "free memory, or use smaller levels of the factors"
            ],
        ),
    ],
)
def test_flags(by: dict[str, float], expected: list[str]) -> None:
    assert judge(QUIET, grown(**by), 10.0, 2, LIMITS) == expected


def test_several_disturbances_are_all_named_in_order() -> None:
    flags = judge(QUIET, grown(busy_seconds=20, swap_in_pages=1, steal_seconds=5), 10.0, 2, LIMITS)
    assert [flag.split()[1] for flag in flags] == ["other", "the", "1"]


def test_limits_are_the_configs() -> None:
    lax = Disturbance(others_cpu=1.0, steal=1.0, throttled=1.0, swap_pages=10)
    assert (
        judge(
            QUIET,
            grown(busy_seconds=20, steal_seconds=20, throttled_seconds=10, swap_in_pages=10),
            10,
            2,
            lax,
        )
        == []
    )


def test_short_window_is_not_judged() -> None:
    noisy = grown(busy_seconds=5, swap_in_pages=9)
    assert judge(QUIET, noisy, 0.199, 2, LIMITS) == []
    assert judge(QUIET, noisy, 0.2, 2, LIMITS) != []


def test_counters_not_told_are_not_judged() -> None:
    assert judge({}, {}, 10.0, 2, LIMITS) == []
    silent = dict.fromkeys(QUIET)
    assert judge(silent, grown(busy_seconds=20), 10.0, 2, LIMITS) == []
    only_out = {"swap_in_pages": None, "swap_out_pages": 1}
    assert judge(only_out, {"swap_in_pages": None, "swap_out_pages": 5}, 10.0, 2, LIMITS) == [
        "disturbed: 4 pages were swapped in or out (limit 0); free memory, or use smaller levels of the factors"
    ]


def test_counters_that_step_back_are_no_disturbance() -> None:
    assert judge(QUIET, grown(busy_seconds=-1, steal_seconds=-1, throttled_seconds=-1), 10.0, 2, LIMITS) == []
    # own time is finer than the machine's: it may exceed it by a tick
    assert judge(QUIET, grown(busy_seconds=19.99, own_cpu_seconds=20.0), 10.0, 2, LIMITS) == []


def test_what_a_peer_used_is_the_runs_own() -> None:
    ready = {**QUIET, "softirq_seconds": 1.0}
    end = {**grown(own_cpu_seconds=4, throttled_seconds=0.1), "softirq_seconds": 3.0}
    merged = joined(ready, end, {"own_cpu_seconds": 5.0, "throttled_seconds": 0.7})
    assert merged == {**end, "own_cpu_seconds": 10 + 4 + 5 + 2, "throttled_seconds": pytest.approx(0.5 + 0.7)}


def test_the_larger_throttling_counts_once() -> None:
    end = grown(throttled_seconds=0.4)
    assert joined(QUIET, end, {"throttled_seconds": 0.3})["throttled_seconds"] == pytest.approx(0.9)
    assert joined(QUIET, end, {"throttled_seconds": None})["throttled_seconds"] == pytest.approx(0.9)
    assert joined({}, {}, {"throttled_seconds": 0.3})["throttled_seconds"] == 0.3
    assert joined({}, {}, {})["throttled_seconds"] is None


def test_a_peer_whose_time_is_not_told_leaves_others_unjudged() -> None:
    merged = joined(QUIET, grown(busy_seconds=20), {})
    assert merged["own_cpu_seconds"] is None
    assert judge(QUIET, merged, 10.0, 2, LIMITS) == []
