"""The last sentence of the answer: what costs, with a verdict behind every number, and nothing only when it is true."""

import pytest
import synthetic_study as synthetic

from tare.analysis.costs import costs, what_costs
from tare.analysis.publish import from_blocks
from tare.workloads.registry import WORKLOADS

EVEN = dict.fromkeys([*synthetic.LADDER, *synthetic.STAR, *synthetic.OPTIONS], 1.0)


def study_with(folder, of, noise=0.002, costs=None, change=None):
    made = {
        (cell.id, n): synthetic.block(of, cell, n, noise=noise, costs=costs or {}, change=change)
        for cell in of.expand()
        for n in range(1, of.blocks + 1)
    }
    return from_blocks(of, synthetic.write_blocks(made, folder), False)


def ladder(**changes):
    return synthetic.attribution(cells=[{"workload": "train-torch-fcn5"}], star=[], options=[], **changes)


def test_the_steps_that_cost_are_named_with_workload_and_interval(tmp_path):
    data = study_with(tmp_path, ladder(), costs=synthetic.LADDER)
    rows = {
        row["level"]: row
        for row in data.comparisons
        if row["contrast"] == "ladder" and row["phase"] == "steady"
    }
    assert rows["engine"]["verdict"] == "equivalent"  # +2.6 %: no cost beyond the margin
    said = what_costs(data)
    assert said.startswith("What costs, step by step from host to docker: seccomp (train-torch-fcn5 ")
    assert said.endswith(
        " and 1 more); of the others 14 comparisons of a step are 14 equivalent (4 with a measurable difference)."
    )
    assert "+11." in said
    assert "engine" not in said


def test_nothing_is_said_to_cost_only_when_every_step_is_equivalent_within_the_noise(tmp_path):
    data = study_with(tmp_path, ladder(), costs=EVEN)
    quiet = what_costs(data)
    shaken = [row for row in data.comparisons if row["contrast"] == "ladder"]
    moved = [row for row in shaken if not row["ci_low"] <= 1 <= row["ci_high"]]
    if not moved:
        assert quiet.startswith("Nothing that costs was found: all 16 comparisons of single steps")
    # one step that is open is enough not to say it
    shaken[0]["verdict"] = "inconclusive"
    assert what_costs(data).startswith(
        "No step from host to docker is surely slower by more than ±5 %: 16 comparisons "
    )
    assert "1 inconclusive" in what_costs(data)


def row(verdict, low=0.99, high=1.01, noise=(0.995, 1.005), **changes):
    middle = (low * high) ** 0.5
    return {
        "verdict": verdict,
        "ratio": None if verdict == "not comparable" else middle,
        "ci_low": None if verdict == "not comparable" else low,
        "ci_high": None if verdict == "not comparable" else high,
        "noise_ci_low": noise[0],
        "noise_ci_high": noise[1],
        "margin": 0.05,
        "machine_id": "m",
        "cell": "hpcc",
        "workload": "hpcc",
        "phase": "steady",
        "metric": "hpl_flops",
        "contrast": "ladder",
        "level": "cgroup",
        "treatment": "docker",
        "reference": "chroot",
    } | changes


def told(rows, **changes):
    of = synthetic.attribution(cells=[{"workload": "hpcc"}, {"workload": "startup"}], **changes)
    data = from_blocks(of, [], False)
    return what_costs(data.__class__(of, data.runs_table, data.samples, rows))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [row("equivalent"), row("equivalent")],
            "Nothing that costs was found: all 2 comparisons of single steps from host to docker are equivalent "
            "within ±5 %, and no interval leaves the noise.",
        ),
        (  # equivalent, but measurable: not nothing
            [row("equivalent"), row("equivalent", 1.02, 1.03)],
            "No step from host to docker is surely slower by more than ±5 %: 2 comparisons of a step are "
            "2 equivalent (1 with a measurable difference).",
        ),
        (  # slower, but perhaps by less than the margin
            [row("slower", 1.01, 1.08), row("inconclusive", 0.8, 1.3)],
            "No step from host to docker is surely slower by more than ±5 %: 2 comparisons of a step are "
            "1 slower, perhaps by less than the margin and 1 inconclusive.",
        ),
        (  # what the control does too is no step's cost
            [row("slower", 1.10, 1.12, noise=(0.8, 1.2))],
            "No step from host to docker is surely slower by more than ±5 %: 1 comparison of a step is "
            "1 slower within the control's noise.",
        ),
        (
            [row("not comparable")],
            "What costs is not known: no step from host to docker could be compared (1 comparison).",
        ),
        (
            [row("slower", 1.10, 1.12), row("slower", 1.2, 1.22), row("faster", 0.8, 0.9)],
            "What costs, step by step from host to docker: cgroup (hpcc HPL +21.0 % [+20.0 %, +22.0 %] and 1 more); "
            "of the others 1 comparison of a step is 1 faster.",
        ),
        (  # the worst step first, at most four by name
            [row("slower", 1.1 + n / 10, 1.2 + n / 10, level=f"s{n}") for n in range(6)],
            "What costs, step by step from host to docker: s5 (hpcc HPL +64.9 % [+60.0 %, +70.0 %]), "
            "s4 (hpcc HPL +54.9 % [+50.0 %, +60.0 %]), s3 (hpcc HPL +44.9 % [+40.0 %, +50.0 %]), "
            "s2 (hpcc HPL +34.9 % [+30.0 %, +40.0 %]) and 2 further steps.",
        ),
    ],
)
def test_by_steps(rows, expected):
    assert told(rows) == expected


def compared(verdict, *interval, **changes):
    return row(verdict, *interval, contrast="runtime", level=None, **changes)


START = {"cell": "startup", "workload": "startup", "metric": "start_seconds", "phase": "startup"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [
                compared("slower", 3.5, 4.5, **START),
                compared("inconclusive", 0.9, 1.2),
                compared("equivalent"),
            ],
            "Layer by layer, docker against chroot (isolation) is slower in start-up (1 of 1 comparison; most: "
            "startup request to first instruction × 3.97 [× 3.50, × 4.50]); open in compute (1 of 2 comparisons).",
        ),
        (
            [
                compared("slower", 1.1, 1.2),
                compared("inconclusive", 0.9, 1.2),
                compared("equivalent", **START),
            ],
            "Layer by layer, docker against chroot (isolation) is slower in compute (1 of 2 comparisons, 1 open; "
            "most: hpcc HPL +14.9 % [+10.0 %, +20.0 %]); equivalent in start-up (1 comparison).",
        ),
        (
            [compared("equivalent"), compared("equivalent", **START)],
            "Nothing that costs was found in docker against chroot (isolation): start-up and compute are equivalent "
            "within ±5 %, and no interval leaves the noise.",
        ),
        (
            [compared("equivalent", 1.01, 1.03), compared("faster", 0.7, 0.8, **START)],
            "Layer by layer, docker against chroot (isolation) is faster in start-up (1 of 1 comparison); "
            "equivalent in compute (1 comparison, 1 with a measurable difference).",
        ),
        (
            [compared("equivalent"), compared("not comparable", **START)],
            "Layer by layer, docker against chroot (isolation) is equivalent in compute (1 comparison); "
            "not comparable in start-up (1 comparison).",
        ),
        (
            [compared("not comparable")],
            "What costs is not known: none of 1 comparison of docker against chroot (isolation) is possible.",
        ),
        (  # without docker ÷ chroot the first pair there is
            [compared("slower", 1.1, 1.2, reference="host")],
            "Layer by layer, docker against the host (isolation + userland) is slower in compute (1 of 1 comparison; "
            "most: hpcc HPL +14.9 % [+10.0 %, +20.0 %]).",
        ),
        ([], ""),
    ],
)
def test_by_layers_where_there_is_no_ladder(rows, expected):
    assert told(rows, ladder=[], star=[], options=[]) == expected


def test_no_number_without_a_verdict(tmp_path):
    of = synthetic.study(blocks=3, cells=[{"workload": "hpcc"}])
    data = study_with(tmp_path, of, noise=0.3)
    assert {row["verdict"] for row in data.comparisons} == {"inconclusive"}
    assert (
        what_costs(data)
        == "Layer by layer, docker against chroot (isolation) is open in compute (7 of 7 comparisons)."
    )


def test_layers_are_named_in_their_order(tmp_path, monkeypatch):
    for name, layer in (("made-files", "files"), ("made-calls", "system calls")):
        monkeypatch.setitem(WORKLOADS, name, synthetic.workload(name, layer, 3))
    of = synthetic.study(
        cells=[{"workload": "made-files"}, {"workload": "made-calls"}, {"workload": "startup"}]
    )
    data = study_with(tmp_path, of, costs={"docker": 1.2})
    said = what_costs(data)
    assert [said.index(f"{name} (") for name in ("start-up", "system calls", "files")] == sorted(
        said.index(f"{name} (") for name in ("start-up", "system calls", "files")
    )
    assert "files (3 of 3 comparisons; most: made-files operation " in said


def test_a_cost_leaves_the_noise():
    assert costs(row("slower", 1.1, 1.2))
    assert not costs(row("slower", 1.1, 1.2, noise=(1.0, 1.3)))
    assert costs(row("slower", 1.1, 1.2, noise=(None, None)))
    assert not costs(row("inconclusive", 1.1, 1.2))
