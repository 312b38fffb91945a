"""The table of comparisons: exact numbers, corrected p values, parity, control, machines."""

import math
import random

import pytest
import synthetic_study as synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tare import records
from tare.analysis.compare import as_table, compare
from tare.analysis.equality import NO_FINGERPRINT, TOO_FEW_BLOCKS

PAIR = {"treatment": "docker", "reference": "chroot"}


def small(blocks=5, **changes):
    given = {
        "runtimes": ["chroot", "docker"],
        "comparisons": [PAIR],
        "cells": [{"workload": "startup"}],
        "blocks": blocks,
    }
    return synthetic.study(**(given | changes))


def block(of, number, docker, chroot=1.0, control=1.0, change=None):
    """Return a start-up block with given values of both metrics (seconds)."""

    def set_values(run):
        base = {"docker": docker, "chroot": control if run["role"] == "control" else chroot}[run["runtime"]]
        for sample in run["samples"]:
            sample["value"] = base
        if change:
            change(run)

    return synthetic.block(of, of.expand()[0], number, change=set_values)


def rows(of, blocks):
    return as_table(of, compare(of, *synthetic.tables(blocks))).to_pylist()


def test_numbers_of_a_row():
    of = small()
    ratios, controls = [1.10, 1.12, 1.11, 1.09, 1.13], [1.0, 1.01, 0.99, 1.02, 0.98]
    found = rows(
        of, [block(of, i + 1, r, control=c) for i, (r, c) in enumerate(zip(ratios, controls, strict=True))]
    )
    assert [row["metric"] for row in found] == ["start_seconds", "total_seconds"]
    row = found[0]
    logs = [math.log(r) for r in ratios]
    mean, half = sum(logs) / 5, stats.t.ppf(0.95, 4) * stats.sem(logs)
    assert row["ratio"] == pytest.approx(math.exp(mean))
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((math.exp(mean - half), math.exp(mean + half)))
    # two metrics with equal p: the correction leaves them as they are
    assert row["p_difference"] == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert row["p_equivalence"] == pytest.approx(
        stats.ttest_1samp(logs, math.log(1.05), alternative="less").pvalue
    )
    assert row["noise_ratio"] == pytest.approx(math.exp(sum(map(math.log, controls)) / 5))
    assert row["noise_ci_low"] < row["noise_ratio"] < row["noise_ci_high"]
    assert (row["verdict"], row["parity"], row["parity_fields"], row["blocks"]) == ("slower", "same", [], 5)
    assert (row["contrast"], row["level"], row["margin"], row["unit"]) == ("runtime", None, 0.05, "s")
    assert (row["study"], row["stack"], row["phase"], row["blocks_needed"]) == (
        "quick",
        "hpc",
        "startup",
        None,
    )


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.00, 1.01, 0.99, 1.005, 0.995], "equivalent"),
        ([1.10, 1.12, 1.11, 1.09, 1.13], "slower"),
        ([0.90, 0.91, 0.89, 0.90, 0.92], "faster"),
        ([0.90, 1.10, 1.05, 0.95, 1.02], "inconclusive"),
        ([1.0, 1.0, 1.0, 1.0, 1.0], "equivalent"),
        ([1.2, 1.2, 1.2, 1.2, 1.2], "slower"),
    ],
)
def test_verdicts(ratios, verdict):
    of = small()
    row = rows(of, [block(of, i + 1, r) for i, r in enumerate(ratios)])[0]
    assert row["verdict"] == verdict
    assert (row["blocks_needed"] is not None) == (verdict == "inconclusive")


def test_p_values_are_corrected_over_the_whole_study():
    """One clear difference among many pairs without one: its p grows by their number."""
    cells = [{"workload": "hpcc"}, {"workload": "startup"}]
    of = small(cells=cells)
    blocks = [synthetic.block(of, cell, n, noise=0.02) for cell in of.expand() for n in range(1, 6)]
    found = compare(of, *synthetic.tables(blocks))
    raw = [one.estimate.p_difference for one in found]
    assert [one.row["p_difference"] for one in found] == pytest.approx(
        list(stats.false_discovery_control(raw))
    )
    raw = [one.estimate.p_equivalence for one in found]
    assert [one.row["p_equivalence"] for one in found] == pytest.approx(
        list(stats.false_discovery_control(raw))
    )


def test_a_verdict_can_be_lost_to_the_correction():
    of = small(cells=[{"workload": "startup"}, {"workload": "hpcc"}])
    values = [1.06, 1.11, 1.02, 1.10, 1.03]  # raw p of the difference about 0.03
    blocks = [block(of, i + 1, r) for i, r in enumerate(values)]
    alone = rows(small(), blocks)[0]
    noisy = [synthetic.block(of, of.expand()[1], n, noise=0.08, costs={}) for n in range(1, 6)]
    together = rows(of, blocks + noisy)[0]
    assert alone["verdict"] == "slower"
    assert together["verdict"] == "inconclusive"
    assert together["ci_low"] == alone["ci_low"] > 1  # the interval is shown uncorrected
    assert together["blocks_needed"] > 5


def test_one_usable_block_is_not_comparable():
    of = small()
    row = rows(of, [block(of, 1, 1.1), block(of, 2, 1.1, change=synthetic.fail("failed", "boom", "docker"))])[
        0
    ]
    assert (row["verdict"], row["blocks"], row["ratio"], row["p_equivalence"]) == (
        "not comparable",
        1,
        None,
        None,
    )
    assert (row["parity"], row["parity_fields"]) == ("unknown", [TOO_FEW_BLOCKS])
    assert row["noise_ratio"] == 1.0  # the control still has both blocks


def test_an_empty_study_gives_an_empty_table():
    table = as_table(small(), compare(small(), *synthetic.tables([])))
    assert table.num_rows == 0
    assert table.schema.remove_metadata() == records.COMPARISONS


def test_all_failed_gives_rows_of_null_numbers_with_their_types():
    of = small()

    def fail_all(run):
        run.update(
            status="failed", reasons=["no engine"], samples=[], seconds_to_start=None, seconds_to_ready=None
        )

    table = as_table(of, compare(of, *synthetic.tables([block(of, n, 1.0, change=fail_all) for n in (1, 2)])))
    assert table.column("ratio").null_count == table.num_rows == len(of.expand()[0].spec.metrics)
    assert table.schema.remove_metadata() == records.COMPARISONS


@pytest.mark.parametrize(
    ("changes", "runtime", "status", "verdict", "field"),
    [
        ({"software": {"hpcc": "1.4.1"}}, "docker", "different", "not comparable", "software.hpcc"),
        (
            {"process": {"environment": {"OMP_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Haswell"}}},
            "docker",
            "different",
            "not comparable",
            "process.environment.OPENBLAS_CORETYPE",
        ),
        ({"process": {"interpreter": {"version": "3.11.9"}}}, "docker", "different", "not comparable", None),
        ({"process": {"seccomp": 2}}, "docker", "same", "equivalent", None),
    ],
)
def test_parity_decides_first(changes, runtime, status, verdict, field):
    of = small()

    def change(run):
        if run["runtime"] == runtime and run["block"] == 2:  # one block is enough
            run["fingerprint"] = synthetic.fingerprint(runtime, "startup", **changes)

    row = rows(of, [block(of, n, 1.0 + n / 1000, change=change) for n in (1, 2, 3, 4)])[0]
    assert (row["parity"], row["verdict"]) == (status, verdict)
    if field:
        assert row["parity_fields"] == [field]
    assert row["ratio"] is not None  # what was seen stays in the table, without a test
    assert (row["p_equivalence"] is None) == (verdict == "not comparable")


@pytest.mark.parametrize("text", [None, "", "not json", "[1]"])
def test_without_a_fingerprint_nothing_is_comparable(text):
    of = small()
    row = rows(of, [block(of, n, 1.0, change=lambda run: run.update(fingerprint=text)) for n in (1, 2, 3)])[0]
    assert (row["parity"], row["parity_fields"], row["verdict"]) == (
        "unknown",
        [NO_FINGERPRINT],
        "not comparable",
    )


def test_host_pairs_are_userland_and_get_a_verdict():
    of = synthetic.study(cells=[{"workload": "train-torch-fcn5"}])
    blocks = [synthetic.block(of, of.expand()[0], n, noise=0.001) for n in range(1, 6)]
    found = {
        (row["treatment"], row["reference"]): row for row in rows(of, blocks) if row["phase"] == "steady"
    }
    assert found["docker", "host"]["parity"] == "userland"
    assert found["docker", "host"]["parity_fields"] == ["process.interpreter.version"]
    assert found["docker", "host"]["verdict"] == "equivalent"
    assert found["docker", "chroot"]["parity"] == "same"


def test_losses_that_differ_are_another_work():
    of = small(cells=[{"workload": "train-torch-fcn5"}])

    def change(run):
        if run["runtime"] == "docker":
            run["fingerprint"] = synthetic.fingerprint(
                "docker", "train-torch-fcn5", check={"loss_hex": [x.hex() for x in (2.3, 1.9, 1.401)]}
            )

    blocks = [synthetic.block(of, of.expand()[0], n, change=change) for n in (1, 2, 3)]
    row = rows(of, blocks)[0]
    assert (row["parity"], row["parity_fields"], row["verdict"]) == (
        "different",
        ["check.losses"],
        "not comparable",
    )


def test_machines_get_rows_of_their_own_and_one_correction():
    of = small()
    blocks = [
        synthetic.block(of, of.expand()[0], n, machine=machine, noise=0.001)
        for machine, numbers in (("m2", (4, 5)), ("m1", (1, 2, 3)))
        for n in numbers
    ]
    found = rows(of, blocks)
    assert [(row["machine_id"], row["metric"], row["blocks"]) for row in found] == [
        ("m1", "start_seconds", 3),
        ("m1", "total_seconds", 3),
        ("m2", "start_seconds", 2),
        ("m2", "total_seconds", 2),
    ]


def test_order_of_rows_changes_no_bit():
    of = synthetic.study()
    blocks = list(synthetic.standard_blocks(of).values())
    first = as_table(of, compare(of, *synthetic.tables(blocks)))
    random.Random(3).shuffle(blocks)
    assert as_table(of, compare(of, *synthetic.tables(blocks))).equals(first)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(min_value=0.8, max_value=1.25), min_size=2, max_size=6),
    st.sampled_from([1e-9, 1e-3, 1e6]),
)
def test_units_do_not_change_a_verdict(ratios, scale):
    of = small(blocks=len(ratios))
    plain = rows(of, [block(of, i + 1, r) for i, r in enumerate(ratios)])
    scaled = rows(of, [block(of, i + 1, r * scale, scale, scale) for i, r in enumerate(ratios)])
    for one, other in zip(plain, scaled, strict=True):
        assert other["ratio"] == pytest.approx(one["ratio"])
        near = min(abs(one[p] - 0.05) for p in ("p_equivalence", "p_difference")) < 1e-6
        assert near or other["verdict"] == one["verdict"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(min_value=0.8, max_value=1.25), min_size=2, max_size=6))
def test_swapping_the_sides_mirrors_the_row(ratios):
    of = small(blocks=len(ratios))
    swapped = small(
        blocks=len(ratios), comparisons=[{"treatment": "chroot", "reference": "docker"}], control="chroot"
    )
    blocks = [block(of, i + 1, r) for i, r in enumerate(ratios)]
    one, other = rows(of, blocks)[0], rows(swapped, blocks)[0]
    assert one["ratio"] * other["ratio"] == pytest.approx(1)
    assert one["ci_low"] * other["ci_high"] == pytest.approx(1)
    mirror = {"slower": "faster", "faster": "slower"}
    near = min(abs(one[p] - 0.05) for p in ("p_equivalence", "p_difference")) < 1e-6
    assert near or other["verdict"] == mirror.get(one["verdict"], one["verdict"])


def test_factors_are_those_that_the_runs_recorded():
    """A workload that gets a factor later changes no row of an older measurement."""
    of = small()

    def before(run):
        run["factors"] = [("n", "quick")]

    assert rows(of, [block(of, n, 1.0, change=before) for n in (1, 2)])[0]["factors"] == [("n", "quick")]
