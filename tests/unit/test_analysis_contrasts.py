"""Ladder, star, options and interaction in the table: which pairs, whose level, one hypothesis each, their sum."""

import math
from dataclasses import replace

import pytest
import synthetic_study as synthetic
from scipy import stats

from tare.analysis.compare import as_table, compare, hypothesis
from tare.analysis.contrasts import gather, isolation_total
from tare.variants import Contrast
from tare.workloads.registry import WORKLOADS

ONE_CELL = {"cells": [{"workload": "hpcc"}]}


def rows_of(of, blocks, metric="hpl_flops"):
    table = as_table(of, compare(of, *synthetic.tables(blocks)))
    return [row for row in table.to_pylist() if row["metric"] == metric]


def seen(rows, contrast):
    return [(r["level"], r["treatment"], r["reference"]) for r in rows if r["contrast"] == contrast]


@pytest.fixture(scope="module")
def rows():
    of = synthetic.attribution(**ONE_CELL)
    return rows_of(of, synthetic.attribution_blocks(of).values())


def test_every_contrast_of_the_study_is_a_row_with_what_the_step_changes(rows):
    assert seen(rows, "runtime") == [
        (None, "docker", "chroot"),
        (None, "chroot", "host"),
        (None, "docker", "host"),
    ]
    assert seen(rows, "ladder") == [
        ("userland", "chroot", "host"),
        ("mount namespace and overlay root", "mounts", "chroot"),
        ("process and IPC namespaces", "processes", "mounts"),
        ("network namespace", "network", "processes"),
        ("cgroup", "cgroup", "network"),
        ("capabilities dropped", "capabilities", "cgroup"),
        ("seccomp", "seccomp", "capabilities"),
        ("engine", "docker", "seccomp"),
    ]
    assert seen(rows, "star") == [
        ("seccomp", "docker", "no-seccomp"),
        ("network namespace", "docker", "host-network"),
        ("overlay root", "docker", "no-overlay"),
    ]
    assert seen(rows, "option") == [
        ("CPU quota", "with-quota", "docker"),
        ("/dev/shm of 1 GiB", "with-shm", "docker"),
    ]
    assert seen(rows, "interaction") == [("total ÷ product of 3 single effects", "docker", "chroot")]


def test_a_step_costs_what_its_rung_costs_over_the_one_before(rows):
    ratio = {row["level"]: row["ratio"] for row in rows if row["contrast"] == "ladder"}
    assert ratio["seccomp"] == pytest.approx(1.15 / 1.031, rel=0.01)
    assert ratio["engine"] == pytest.approx(1.18 / 1.15, rel=0.01)
    assert ratio["cgroup"] == pytest.approx(1.0, abs=0.01)
    # in the star above 1 means that the default costs, in the options that the option does
    level = {(row["contrast"], row["level"]): row["ratio"] for row in rows}
    assert level["star", "seccomp"] == pytest.approx(1.18 / 1.03, rel=0.01)
    assert level["option", "CPU quota"] == pytest.approx(1.30 / 1.18, rel=0.01)


def block_of(of, number, values, change=None):
    """Return a block of hpcc whose HPL takes given values (flop/s) by runtime; the control is its runtime's again."""

    def set_values(run):
        for sample in run["samples"]:
            sample["value"] = values[run["runtime"]]
        if change:
            change(run)

    return synthetic.block(of, of.expand()[0], number, change=set_values)


def test_the_interaction_is_taken_block_by_block():
    """Costs 1.2 in all, 1.1 and 1.05 alone: 1.2 ÷ 1.155, whatever the blocks' own levels are."""
    of = synthetic.attribution(star=["no-seccomp", "host-network"], options=[], **ONE_CELL)
    blocks = []
    for number, (level, extra) in enumerate(
        [(1.0, 1.0), (1.7, 1.01), (0.6, 0.99), (1.2, 1.02), (0.9, 0.98)], 1
    ):
        cost = dict.fromkeys([*synthetic.LADDER, *synthetic.STAR], 1.0)
        cost |= {"docker": 1.2 * extra, "no-seccomp": 1.2 * extra / 1.1, "host-network": 1.2 * extra / 1.05}
        blocks.append(block_of(of, number, {name: 1e9 * level / one for name, one in cost.items()}))
    row = next(row for row in rows_of(of, blocks) if row["contrast"] == "interaction")
    logs = [math.log(1.2 * extra / (1.1 * 1.05)) for extra in (1.0, 1.01, 0.99, 1.02, 0.98)]
    assert row["ratio"] == pytest.approx(math.exp(sum(logs) / 5))
    half = stats.t.ppf(0.95, 4) * stats.sem(logs)
    assert row["ci_low"] == pytest.approx(math.exp(sum(logs) / 5 - half))
    assert row["ci_high"] == pytest.approx(math.exp(sum(logs) / 5 + half))
    assert row["level"] == "total ÷ product of 2 single effects"


def test_parts_that_add_up_contain_one(rows):
    row = next(row for row in rows if row["contrast"] == "interaction")
    # 1.18 ÷ (1.18/1.03 · 1.18/1.15 · 1.18/1.179): the network's 3 % and seccomp's 11.5 % and engine's 2.6 %
    expected = 1.18 / ((1.18 / 1.03) * (1.18 / 1.15) * (1.18 / 1.179))
    assert row["ratio"] == pytest.approx(expected, rel=0.01)
    assert row["verdict"] == "equivalent"


def test_a_block_lacks_an_interaction_when_any_part_lacks_a_number():
    of = synthetic.attribution(**ONE_CELL)
    blocks = synthetic.attribution_blocks(of)

    def fail(run):
        if run["runtime"] == "no-overlay":
            run.update(status="failed", reasons=["the overlay could not be left out"])

    blocks["hpcc", 2] = synthetic.block(of, of.expand()[0], 2, change=fail)
    found = gather(of, *synthetic.tables(blocks.values()))
    one = next(e for e in found if e.contrast == "interaction" and e.metric.name == "hpl_flops")
    assert [ratio.block for ratio in one.usable] == [1, 3, 4, 5]
    assert [ratio.reason for ratio in one.unusable] == [
        "no-overlay: failed (the overlay could not be left out)"
    ]
    # the whole reason is told once, though docker stands in every part

    def fail_docker(run):
        if run["runtime"] == "docker":
            run.update(status="failed", reasons=["no engine"])

    blocks["hpcc", 2] = synthetic.block(of, of.expand()[0], 2, change=fail_docker)
    found = gather(of, *synthetic.tables(blocks.values()))
    one = next(e for e in found if e.contrast == "interaction" and e.metric.name == "hpl_flops")
    assert [ratio.reason for ratio in one.unusable] == ["docker: failed (no engine)"]


def test_the_worst_parity_of_its_parts_is_the_interactions():
    of = synthetic.attribution(**ONE_CELL)

    def other(run):
        if run["runtime"] == "no-overlay":
            run["fingerprint"] = synthetic.fingerprint("no-overlay", "hpcc", software={"hpcc": "1.4"})

    found = rows_of(of, synthetic.attribution_blocks(of, change=other).values())
    row = next(row for row in found if row["contrast"] == "interaction")
    assert (row["verdict"], row["parity"], row["parity_fields"]) == (
        "not comparable",
        "different",
        ["software.hpcc"],
    )
    other_star = next(row for row in found if row["contrast"] == "star" and row["level"] == "seccomp")
    assert other_star["parity"] == "same"


def test_a_pair_in_two_contrasts_is_one_hypothesis():
    """chroot ÷ host is compared and is a step: both rows show the same p, and the others are not burdened twice."""
    of = synthetic.attribution(star=[], options=[], **ONE_CELL)
    blocks = list(synthetic.attribution_blocks(of, noise=0.03).values())
    found = compare(of, *synthetic.tables(blocks))
    twice = [one.row for one in found if {one.row["treatment"], one.row["reference"]} == {"chroot", "host"}]
    assert len(twice) == 14
    for metric in {row["metric"] for row in twice}:
        one, other = (row for row in twice if row["metric"] == metric)
        assert {one["contrast"], other["contrast"]} == {"runtime", "ladder"}
        for column in ("ratio", "ci_low", "ci_high", "p_equivalence", "p_difference", "verdict"):
            assert one[column] == other[column]
    unique = {hypothesis(one.evidence): one.estimate.p_difference for one in found}
    assert (len(found), len(unique)) == (7 * 11, 7 * 10)
    adjusted = dict(zip(unique, stats.false_discovery_control(list(unique.values())), strict=True))
    for one in found:
        assert one.row["p_difference"] == pytest.approx(adjusted[hypothesis(one.evidence)])


def test_the_same_pair_the_other_way_round_is_the_same_hypothesis():
    of = synthetic.attribution(
        comparisons=[{"treatment": "docker", "reference": "with-quota"}], ladder=[], star=[], **ONE_CELL
    )
    found = compare(of, *synthetic.tables(list(synthetic.attribution_blocks(of).values())))
    quota = [one for one in found if "with-quota" in (one.row["treatment"], one.row["reference"])]
    assert len({hypothesis(one.evidence) for one in quota}) == len(quota) / 2
    one, other = (x.row for x in quota if x.row["metric"] == "hpl_flops")
    assert one["ratio"] * other["ratio"] == pytest.approx(1)
    assert one["p_difference"] == other["p_difference"]


def test_an_interaction_is_no_pair():
    of = synthetic.attribution(**ONE_CELL)
    found = gather(of, *synthetic.tables(list(synthetic.attribution_blocks(of).values())))
    pair = next(
        one
        for one in found
        if (one.contrast, one.treatment, one.reference) == ("runtime", "docker", "chroot")
    )
    whole = next(one for one in found if one.contrast == "interaction" and one.metric == pair.metric)
    assert hypothesis(pair) != hypothesis(whole)


def test_a_cell_compares_only_what_it_runs_and_no_step_skips_a_rung():
    there = ["chroot", "network", "docker", "no-overlay"]
    of = synthetic.attribution(cells=[{"workload": "hpcc", "runtimes": there}])
    found = rows_of(of, synthetic.attribution_blocks(of).values())
    assert [(row["contrast"], row["treatment"], row["reference"]) for row in found] == [
        ("runtime", "docker", "chroot"),
        ("star", "docker", "no-overlay"),
        ("interaction", "docker", "chroot"),
    ]
    assert {row["noise_ratio"] is None for row in found} == {False}  # the control is the cell's own


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Contrast("interaction", "total ÷ product of 3 single effects", "docker", "chroot")),
        (
            {"star": ["no-overlay"]},
            Contrast("interaction", "total ÷ product of 1 single effect", "docker", "chroot"),
        ),
        ({"star": []}, None),
        ({"ladder": []}, None),
        ({"ladder": ["host", "chroot"]}, None),  # docker is no rung
        ({"ladder": ["docker", "chroot"]}, None),  # nothing below docker
        ({"ladder": ["host", "docker"]}, None),  # host is another userland
    ],
)
def test_what_the_ladders_isolation_is(changes, expected):
    of = synthetic.attribution(**ONE_CELL, **changes)
    assert isolation_total(of, of.expand()[0]) == expected


def with_optional_metric(monkeypatch):
    spec = WORKLOADS["hpcc"]
    metrics = tuple(m._replace(optional=m.name == "hpl_flops") for m in spec.metrics)
    monkeypatch.setitem(WORKLOADS, "hpcc", spec._replace(metrics=metrics))


def without_hpl(*runtimes, status="ok"):
    def change(run):
        if run["runtime"] in runtimes:
            run["samples"] = [s for s in run["samples"] if s["metric"] != "hpl_flops"]
            if status != "ok":
                run.update(status=status, reasons=["boom"])

    return change


def optional_rows(monkeypatch, change):
    with_optional_metric(monkeypatch)
    of = synthetic.study(cells=[{"workload": "hpcc"}], blocks=2)
    return rows_of(of, [synthetic.block(of, of.expand()[0], n, change=change) for n in (1, 2)])


def test_what_a_side_never_has_makes_no_row(monkeypatch):
    found = optional_rows(monkeypatch, without_hpl("host"))
    assert seen(found, "runtime") == [(None, "docker", "chroot")]
    assert found[0]["noise_ratio"] is not None


def test_without_a_control_the_noise_is_unknown(monkeypatch):
    found = optional_rows(monkeypatch, without_hpl("chroot"))
    assert seen(found, "runtime") == [(None, "docker", "host")]
    assert (found[0]["noise_ratio"], found[0]["noise_ci_low"]) == (None, None)


def test_a_failed_run_stays_a_failed_run(monkeypatch):
    found = optional_rows(monkeypatch, without_hpl("docker", status="failed"))
    assert {(row["treatment"], row["reference"]): row["verdict"] for row in found} == {
        ("docker", "chroot"): "not comparable",
        ("chroot", "host"): "equivalent",
        ("docker", "host"): "not comparable",
    }


def test_a_sample_missing_now_and_then_is_a_missing_sample(monkeypatch):
    def change(run):
        if run["block"] == 1:
            without_hpl("docker")(run)

    found = optional_rows(monkeypatch, change)
    assert len(found) == 3
    assert found[0]["blocks"] == 1


def test_a_metric_that_is_not_optional_is_missed():
    of = synthetic.study(cells=[{"workload": "hpcc"}], blocks=2)
    found = rows_of(of, [synthetic.block(of, of.expand()[0], n, change=without_hpl("host")) for n in (1, 2)])
    assert [row["verdict"] for row in found if "host" in (row["treatment"], row["reference"])] == [
        "not comparable"
    ] * 2


def test_the_userland_belongs_to_the_host_whatever_a_variant_is_called():
    of = synthetic.study(
        cells=[{"workload": "hpcc"}],
        blocks=3,
        variants={"two-nodes": {"base": "host", "network": "vxlan", "label": "overlay"}},
        runtimes=["host", "chroot", "two-nodes"],
        comparisons=[
            {"treatment": "two-nodes", "reference": "host"},
            {"treatment": "chroot", "reference": "two-nodes"},
        ],
    )

    def as_host(run):
        if run["runtime"] == "two-nodes":
            run["fingerprint"] = synthetic.fingerprint("host", "hpcc")

    found = rows_of(of, [synthetic.block(of, of.expand()[0], n, change=as_host) for n in (1, 2, 3)])
    assert [(row["treatment"], row["reference"], row["parity"]) for row in found] == [
        ("two-nodes", "host", "same"),
        ("chroot", "two-nodes", "userland"),
    ]


def test_evidence_is_found_by_the_key_of_its_row():
    of = synthetic.attribution(**ONE_CELL)
    found = gather(of, *synthetic.tables(list(synthetic.attribution_blocks(of).values())))
    keys = [one.key for one in found]
    assert len(keys) == len(set(keys))
    assert replace(found[0], contrast="other").key != found[0].key
