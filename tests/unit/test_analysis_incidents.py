"""What went wrong, alike things told once, nothing left out."""

import pytest
import synthetic_study as synthetic

from tare.analysis.incidents import merged, troubles
from tare.analysis.publish import from_blocks


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (
            [f"others used {n}% of the CPU time (limit 10%); stop" for n in (41, 39, 50)],
            "others used 39–50 % of the CPU time (limit 10 %); stop",
        ),
        (["9 pages", "10 pages"], "9–10 pages"),  # by value, not by letter
        (["share 0.5", "share 0.25", "share 0.5"], "share 0.25–0.5"),
        (["version 1.5.0 of hpcc2"], "version 1.5.0 of hpcc2"),
    ],
)
def test_merged(reasons, expected):
    assert merged(reasons) == expected


def study_in_which(change, folder, blocks=3):
    of = synthetic.study(cells=[{"workload": "startup"}, {"workload": "hpcc"}], blocks=blocks)
    made = {
        (cell.id, n): synthetic.block(of, cell, n, change=change)
        for cell in of.expand()
        for n in range(1, blocks + 1)
    }
    return from_blocks(of, synthetic.write_blocks(made, folder), False)


def test_disturbances_are_grouped_with_the_range_of_their_values(tmp_path):
    def disturb(run):
        run["flags"] = [f"disturbed: others used {20 + run['block']}% of the CPU (limit 10%); stop"]

    found = troubles(study_in_which(disturb, tmp_path))
    assert [(one.kind, one.cell, one.words) for one in found] == [
        (
            "disturbed",
            "startup and hpcc",
            "24 of 24 runs, others used 21–23 % of the CPU (limit 10 %); stop",
        ),
    ]
    # 2 cells × 3 blocks × 3 runtimes: each with its own number
    assert len(found[0].incidents) == 18
    assert sum(one.runs for one in found[0].incidents) == 24


def test_where_is_told_unless_it_is_everywhere(tmp_path):
    def some(run):
        if run["runtime"] == "docker" and run["block"] != 2:
            run.update(status="failed", reasons=["it broke"])

    found = troubles(study_in_which(some, tmp_path))
    assert [one.words for one in found] == ["4 of 24 runs (docker; blocks 1, 3), it broke"]


def test_exit_statuses_never_become_a_range(tmp_path):
    def some(run):
        if run["runtime"] == "docker" and run["cell"] == "hpcc":
            run.update(status="failed", reasons=[f"exit status {136 + run['block']}"])

    assert [one.reason for one in troubles(study_in_which(some, tmp_path))] == [
        "exit status 137",
        "exit status 138",
        "exit status 139",
    ]


def test_worst_kinds_first(tmp_path):
    def some(run):
        if run["runtime"] == "docker":
            run["flags"] = ["cache: unverified", "disturbed: swapped"]
        if run["runtime"] == "chroot":
            run.update(status="skipped" if run["cell"] == "hpcc" else "invalid", reasons=["r"])
        if run["runtime"] == "host" and run["cell"] == "hpcc":
            run.update(status="failed", reasons=["r"])

    assert [(one.kind, one.cell) for one in troubles(study_in_which(some, tmp_path))] == [
        ("failed", "hpcc"),
        ("invalid", "startup"),
        ("skipped", "hpcc"),
        ("disturbed", "startup and hpcc"),
        ("flagged", "startup and hpcc"),
    ]


def test_forty_equal_reasons_are_one_line_with_a_count(tmp_path):
    cells = [{"workload": "hpcc", "factors": {"n": [1000, 2000, 3000, 4000, 5000]}}]
    of = synthetic.study(cells=cells, blocks=2)

    def invalid(run):
        run.update(
            status="invalid", reasons=[f"{80 + run['block']}.5 GB/s is above memory (11 GB/s); mend it"]
        )

    made = {(c.id, n): synthetic.block(of, c, n, change=invalid) for c in of.expand() for n in (1, 2)}
    found = troubles(from_blocks(of, synthetic.write_blocks(made, tmp_path), False))
    assert [(one.kind, one.cell, one.words) for one in found] == [
        (
            "invalid",
            "hpcc+n=1000, hpcc+n=2000 and 3 more cells",
            "40 of 40 runs, 81.5–82.5 GB/s is above memory (11 GB/s); mend it",
        )
    ]
    assert sum(one.runs for one in found[0].incidents) == 40


def test_only_the_cells_with_a_trouble_are_named_and_counted(tmp_path):
    def some(run):
        if run["cell"] == "hpcc" and run["runtime"] == "docker":
            run.update(status="failed", reasons=["it broke"])

    found = troubles(study_in_which(some, tmp_path))
    assert [(one.cells, one.runs, one.of) for one in found] == [(("hpcc",), 3, 12)]


def test_an_invalid_exit_status_never_becomes_a_range(tmp_path):
    def some(run):
        if run["runtime"] == "docker" and run["cell"] == "hpcc":
            run.update(
                status="invalid", reasons=[f"the tool ended with status {136 + run['block']} by signal 9"]
            )

    assert [one.reason for one in troubles(study_in_which(some, tmp_path))] == [
        "the tool ended with status 137 by signal 9",
        "the tool ended with status 138 by signal 9",
        "the tool ended with status 139 by signal 9",
    ]
