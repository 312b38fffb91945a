"""The ladder as a waterfall: where bars start, what breaks the sum, and that the total is measured."""

import math

import pytest
import synthetic_study as synthetic

from tare.analysis.publish import from_blocks
from tare.analysis.study_data import most_moved
from tare.analysis.waterfall import waterfalls
from tare.workloads.registry import WORKLOADS


def made(folder, change=None, skip=None, **changes):
    of = synthetic.attribution(**({"cells": [{"workload": "train-torch-fcn5"}]} | changes))
    blocks = synthetic.attribution_blocks(of, change=change)
    for key in skip or ():
        del blocks[key]
    return from_blocks(of, synthetic.write_blocks(blocks, folder), False)


def steady(data, most=6):
    return waterfalls(data, most)[-1]


def test_every_step_starts_where_the_one_before_ended_and_they_end_at_the_total(tmp_path):
    one = steady(made(tmp_path))
    assert one.metric == "steady training step"
    assert [step.row["treatment"] for step in one.steps] == [*synthetic.LADDER][1:]
    assert one.steps[0].start == 0.0
    for before, after in zip(one.steps, one.steps[1:], strict=False):
        assert after.start == before.end
    # all blocks are there: the steps' product is exactly the total
    assert one.steps[-1].end == pytest.approx(math.log(one.total["ratio"]))
    assert (one.first, one.last) == ("host", "docker")
    assert one.total["ratio"] == pytest.approx(1.18, rel=0.01)
    assert one.total["verdict"] is None  # it is no row of the table, and no hypothesis
    assert [row["level"] for row in one.star] == ["seccomp", "network namespace", "overlay root"]
    assert one.interaction["contrast"] == "interaction"


def test_the_total_is_measured_not_added_up(tmp_path):
    def change(run):
        if (run["runtime"], run["block"]) == ("network", 3):
            run.update(status="failed", reasons=["no network namespace"])

    one = steady(made(tmp_path, change=change))
    assert [step.row["blocks"] for step in one.steps] == [5, 5, 5, 4, 4, 5, 5, 5]
    total = math.log(one.total["ratio"])
    assert one.steps[-1].end != total
    assert one.steps[-1].end == pytest.approx(total, abs=0.01)


def test_a_rung_that_cannot_be_compared_breaks_the_sum(tmp_path):
    def change(run):
        if run["runtime"] == "host":
            run["fingerprint"] = synthetic.fingerprint("host", "train-torch-fcn5", software={"torch": "2.1"})

    one = steady(made(tmp_path, change=change))
    assert [step.comparable for step in one.steps] == [False, *[True] * 7]
    assert one.steps[0].end == one.steps[1].start == 0.0
    assert (one.first, one.last) == ("chroot", "docker")
    assert one.steps[-1].end == pytest.approx(math.log(one.total["ratio"]))


def test_a_rung_in_the_middle_that_was_skipped_restarts_the_sum_above_it(tmp_path):
    def change(run):
        if run["runtime"] == "cgroup":
            run.update(status="skipped", reasons=["no cgroup"])

    one = steady(made(tmp_path, change=change))
    assert [step.comparable for step in one.steps] == [True] * 4 + [False] * 2 + [True] * 2
    assert one.steps[6].start == 0.0
    assert (one.first, one.last) == ("capabilities", "docker")
    assert one.total["ratio"] == pytest.approx(1.18 / 1.031, rel=0.01)


def test_a_ladder_in_which_nothing_can_be_compared_has_no_total(tmp_path):
    def change(run):
        run.update(status="failed", reasons=["no engine"])

    one = steady(made(tmp_path, change=change))
    assert not any(step.comparable for step in one.steps)
    assert (one.total, one.first, one.last) == (None, "", "")


def test_a_star_without_a_ladder_has_no_steps(tmp_path):
    one = steady(made(tmp_path, ladder=[]))
    assert (one.steps, one.total, one.interaction) == ((), None, None)
    assert len(one.star) == 3


def test_options_alone_are_no_waterfall(tmp_path):
    assert waterfalls(made(tmp_path, ladder=[], star=[]), 6) == []


def test_of_many_metrics_those_with_the_largest_steps_are_shown_in_their_order(tmp_path):
    def change(run):
        for sample in run["samples"]:
            if run["runtime"] == "docker" and sample["metric"] in ("ptrans", "dgemm_flops"):
                sample["value"] /= 2

    data = made(tmp_path, change=change, cells=[{"workload": "hpcc"}])
    assert [one.metric for one in waterfalls(data, 2)] == ["DGEMM (star)", "PTRANS"]
    assert len(waterfalls(data, 6)) == 6


def test_most_moved_ignores_noise_and_what_has_no_number():
    def group(ratio, low, high):
        return [{"ratio": ratio, "ci_low": low, "ci_high": high, "noise_ci_low": 0.9, "noise_ci_high": 1.1}]

    loud, quiet, none = group(0.5, 0.4, 0.6), group(1.05, 1.02, 1.08), group(None, None, None)
    wide, large = group(3.0, 0.5, 9.0), group(1.3, 1.2, 1.4)
    assert most_moved([none, quiet, large, wide, loud], 2) == [large, loud]
    assert most_moved([quiet], 2) == [quiet]
    assert most_moved([], 2) == []


def test_a_metric_that_some_rungs_lack_by_nature_begins_where_they_end(tmp_path, monkeypatch):
    """Only crun and docker have it, and one rung between them has not: two sums, the total is of the last."""
    monkeypatch.setitem(WORKLOADS, "made", synthetic.workload("made", "start-up", 1, optional=True))

    def change(run):
        if run["runtime"] in ("host", "chroot", "network"):
            run["samples"] = []

    one = steady(made(tmp_path, change=change, cells=[{"workload": "made"}]))
    assert [(step.row["treatment"], step.row["reference"]) for step in one.steps] == [
        ("processes", "mounts"),
        ("capabilities", "cgroup"),
        ("seccomp", "capabilities"),
        ("docker", "seccomp"),
    ]
    assert (one.first, one.last) == ("cgroup", "docker")
    assert one.steps[1].start == 0.0
    assert one.steps[3].end == pytest.approx(math.log(one.total["ratio"]))
    assert one.interaction is None  # chroot has no such number
