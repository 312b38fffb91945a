"""Absolute values beside the ratios: per runtime, of the runs that count, the control left out."""

from statistics import median

import synthetic_study as synthetic

from tare.analysis import medians
from tare.analysis.publish import from_blocks


def row_of(data, cell, metric):
    return next(row for row in data.comparisons if (row["cell"], row["metric"]) == (cell, metric))


def test_only_runs_that_count_and_not_the_control(tmp_path):
    of = synthetic.study(cells=[{"workload": "hpcc"}], blocks=3)
    cell = of.expand()[0]

    def known(run):
        worth = {"host": 1.0, "chroot": 2.0, "docker": 3.0}[run["runtime"]] * (
            10 if run["role"] == "control" else 1
        )
        for sample in run["samples"]:
            sample["value"] = worth * run["block"]

    def bad(run):
        known(run)
        run["flags"] = ["disturbed: x"]
        for sample in run["samples"]:
            sample["value"] *= 1000

    blocks = {("hpcc", n): synthetic.block(of, cell, n, change=known) for n in (1, 2)}
    blocks["hpcc", 3] = synthetic.join(
        synthetic.block(of, cell, 3, change=bad), synthetic.block(of, cell, 3, attempt=2, change=known)
    )
    data = from_blocks(of, synthetic.write_blocks(blocks, tmp_path), False)
    row = row_of(data, "hpcc", "stream_triad")
    assert medians.medians(data, row) == {"host": 2.0, "chroot": 4.0, "docker": 6.0}
    assert medians.shown(data, row) == (("host", "2.00 B/s"), ("chroot", "4.00 B/s"), ("docker", "6.00 B/s"))


def test_a_run_counts_with_its_own_median(tmp_path):
    of = synthetic.study(cells=[{"workload": "train-torch-fcn5"}], blocks=2)
    cell = of.expand()[0]
    data = from_blocks(
        of,
        synthetic.write_blocks({(cell.id, n): synthetic.block(of, cell, n) for n in (1, 2)}, tmp_path),
        False,
    )
    run_ids = {r["run_id"] for r in data.runs if (r["runtime"], r["role"]) == ("docker", "measure")}
    samples = [
        sample
        for sample in data.samples.to_pylist()
        if sample["run_id"] in run_ids and (sample["metric"], sample["phase"]) == ("step_seconds", "steady")
    ]
    each = [median(s["value"] for s in samples if s["run_id"] == run_id) for run_id in run_ids]
    assert len(samples) == 16
    assert medians.medians(data, row_of(data, cell.id, "step_seconds"))["docker"] == median(each)


def test_a_runtime_that_never_ended_well_has_none(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)
    change = synthetic.fail("skipped", "no python", "host")
    blocks = {("startup", n): synthetic.block(of, of.expand()[0], n, change=change) for n in (1, 2)}
    data = from_blocks(of, synthetic.write_blocks(blocks, tmp_path), False)
    row = row_of(data, "startup", "total_seconds")
    assert sorted(medians.medians(data, row)) == ["chroot", "docker"]
    assert medians.shown(data, row)[0] == ("host", "–")
