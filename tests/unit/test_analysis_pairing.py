"""Which attempt counts, which blocks have a number, and what their ratio is."""

import math

import pytest
import synthetic_study as synthetic

from tare.analysis.contrasts import gather
from tare.analysis.pairing import CONTROL, attempts, summaries

OF = synthetic.study(
    runtimes=["chroot", "docker"],
    comparisons=[{"treatment": "docker", "reference": "chroot"}],
    cells=[{"workload": "train-torch-fcn5"}],
    blocks=2,
)
CELL = OF.expand()[0]


def value(runtime, role, metric, number):
    """Return a change that sets every sample of one metric."""

    def change(run):
        if (run["runtime"], run["role"]) == (runtime, role):
            for sample in run["samples"]:
                if sample["metric"] == metric:
                    sample["value"] = number

    return change


def both(*changes):
    def change(run):
        for one in changes:
            one(run)

    return change


def evidence(*blocks, of=OF, treatment="docker", metric="step_seconds"):
    found = gather(of, *synthetic.tables(blocks))
    return next(one for one in found if (one.treatment, one.metric.name) == (treatment, metric))


def test_a_blocks_ratio_is_treatment_over_reference():
    change = both(
        value("docker", "measure", "step_seconds", 0.3), value("chroot", "measure", "step_seconds", 0.2)
    )
    found = evidence(synthetic.block(OF, CELL, 1, change=change))
    assert found.log_ratios == [math.log(0.3) - math.log(0.2)]


def test_throughput_is_inverted():
    of = synthetic.study(
        runtimes=OF.runtimes,
        comparisons=[OF.comparisons[0].model_dump()],
        cells=[{"workload": "hpcc"}],
        blocks=2,
    )
    change = both(
        value("docker", "measure", "hpl_flops", 80.0), value("chroot", "measure", "hpl_flops", 100.0)
    )
    found = evidence(synthetic.block(of, of.expand()[0], 1, change=change), of=of, metric="hpl_flops")
    assert found.log_ratios == pytest.approx(
        [math.log(1.25)]
    )  # a fifth less throughput costs a quarter more time


def test_the_control_is_control_over_measure_of_its_runtime():
    change = both(
        value("chroot", CONTROL, "step_seconds", 0.22), value("chroot", "measure", "step_seconds", 0.2)
    )
    found = evidence(synthetic.block(OF, CELL, 1, change=change), treatment=CONTROL)
    assert found.reference == "chroot"
    assert found.log_ratios == pytest.approx([math.log(1.1)])


def test_summary_is_the_median_of_the_steady_samples():
    def change(run):
        steady = [s for s in run["samples"] if s["metric"] == "step_seconds" and s["phase"] == "steady"]
        for sample, number in zip(steady, (9.0, 1.0, 2.0, 3.0, 4.0, 100.0, 2.5, 2.6), strict=True):
            sample["value"] = number

    block = synthetic.block(OF, CELL, 1, change=change)
    _, samples = synthetic.tables([block])
    run_id = block.column("run_id")[0].as_py()
    found = summaries(samples)
    assert found[run_id, "step_seconds", "steady"] == pytest.approx(2.8)  # of 1 2 2.5 2.6 3 4 9 100
    assert (run_id, "epoch_seconds", "first") in found


def test_the_first_undisturbed_attempt_counts_whatever_its_ratio():
    blocks = synthetic.join(
        synthetic.block(OF, CELL, 1, attempt=1, change=synthetic.disturb),
        synthetic.block(OF, CELL, 1, attempt=2, change=value("docker", "measure", "step_seconds", 9.0)),
        synthetic.block(OF, CELL, 1, attempt=3),
    )
    found = evidence(blocks)
    assert [(one.attempt, one.counts, one.disturbed) for one in found.ratios] == [
        (1, False, True),
        (2, True, False),
        (3, False, False),
    ]
    assert found.usable[0].log_ratio > 3
    assert found.disturbed_blocks == []


def test_one_disturbed_run_disturbs_its_attempt():
    def change(run):
        if run["role"] == CONTROL:
            synthetic.disturb(run)

    table = synthetic.join(
        synthetic.block(OF, CELL, 1, change=change), synthetic.block(OF, CELL, 1, attempt=2)
    )
    assert [
        (one.attempt, counts) for one, counts in attempts(table.drop_columns(["samples"]).to_pylist())
    ] == [
        (1, False),
        (2, True),
    ]


def test_other_flags_disturb_nothing():
    def change(run):
        run["flags"] = ["cache: cold could not be proved: not owner"]

    table = synthetic.join(
        synthetic.block(OF, CELL, 1, change=change), synthetic.block(OF, CELL, 1, attempt=2)
    )
    assert evidence(table).usable[0].attempt == 1


def test_the_last_of_only_disturbed_attempts_is_kept():
    table = synthetic.join(
        *(synthetic.block(OF, CELL, 1, attempt=n, change=synthetic.disturb) for n in (1, 2))
    )
    found = evidence(table)
    assert [one.attempt for one in found.usable] == [2]
    assert found.disturbed_blocks == [1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (synthetic.fail("failed", "boom", "docker"), "docker: failed (boom)"),
        (synthetic.fail("invalid", "loss rose", "chroot"), "chroot: invalid (loss rose)"),
        (synthetic.fail("skipped", "no root", "chroot"), "chroot: skipped (no root)"),
        (
            value("docker", "measure", "step_seconds", math.nan),
            "docker: step_seconds is nan, not a positive number",
        ),
        (
            value("docker", "measure", "step_seconds", -1.0),
            "docker: step_seconds is -1.0, not a positive number",
        ),
        (
            value("docker", "measure", "step_seconds", 0.0),
            "docker: step_seconds is 0.0, not a positive number",
        ),
        (
            value("docker", "measure", "step_seconds", math.inf),
            "docker: step_seconds is inf, not a positive number",
        ),
        (
            value("docker", "measure", "step_seconds", None),
            "docker: step_seconds is nan, not a positive number",
        ),
    ],
)
def test_a_block_without_two_numbers_says_why(change, reason):
    found = evidence(synthetic.block(OF, CELL, 1, change=change), synthetic.block(OF, CELL, 2))
    assert [one.block for one in found.usable] == [2]
    assert [(one.block, one.reason) for one in found.unusable] == [(1, reason)]


def test_both_sides_reasons_are_named():
    change = both(synthetic.fail("failed", "a", "docker"), synthetic.fail("failed", "b", "chroot"))
    assert (
        evidence(synthetic.block(OF, CELL, 1, change=change)).unusable[0].reason
        == "chroot: failed (b); docker: failed (a)"
    )


def test_a_missing_run_and_a_missing_metric_are_reasons():
    block = synthetic.block(OF, CELL, 1, change=lambda run: run.update(samples=run["samples"][:0]))
    assert evidence(block).unusable[0].reason == (
        "chroot: no sample of step_seconds in phase steady; docker: no sample of step_seconds in phase steady"
    )
    rows = [row for row in synthetic.block(OF, CELL, 1).to_pylist() if row["runtime"] != "docker"]
    without = synthetic.records.table(rows, synthetic.records.BLOCK)
    assert evidence(without).unusable[0].reason == "docker: no run in this block"


def test_machines_never_mix():
    found = gather(
        OF,
        *synthetic.tables(
            [
                synthetic.block(OF, CELL, 1, machine="m1"),
                synthetic.block(OF, CELL, 2, machine="m2"),
            ]
        ),
    )
    assert [
        (one.machine_id, [r.block for r in one.ratios]) for one in found if one.treatment == "docker"
    ] == [
        ("m1", [1]),
        ("m1", [1]),
        ("m2", [2]),
        ("m2", [2]),
    ]
