"""The last word on a study, and the report of a study that is not finished."""

import importlib
import sys
from pathlib import Path

import pytest
import synthetic_study as synthetic
import yaml

from tare.analysis import verify
from tare.analysis.publish import from_blocks

ROOT = Path(__file__).parents[2]


def data_of(of, blocks, folder):
    return from_blocks(of, synthetic.write_blocks(blocks, folder), False)


def whole(of, change=None, attempt=1):
    return {
        (c.id, n): synthetic.block(of, c, n, change=change, attempt=attempt)
        for c in of.expand()
        for n in (1, 2)
    }


@pytest.fixture
def of():
    return synthetic.study(cells=[{"workload": "startup"}], blocks=2)


def test_a_whole_study_has_no_problem(of, tmp_path):
    data = data_of(of, whole(of), tmp_path)
    assert verify.problems(data) == []
    assert verify.message(data, "page") is None


def test_failed_and_invalid_runs_are_listed(of, tmp_path):
    blocks = whole(of, synthetic.fail("failed", "boom", "docker"))
    blocks["startup", 2] = synthetic.block(
        of, of.expand()[0], 2, change=synthetic.fail("invalid", "odd", "host")
    )
    data = data_of(of, blocks, tmp_path)
    assert verify.problems(data) == [
        "failed: startup in docker, block 1 (1 run): boom",
        "invalid: startup in host, block 2 (1 run): odd",
    ]
    assert verify.message(data, "results/quick/report.html") == (
        "Study quick is not whole:\n"
        "  - failed: startup in docker, block 1 (1 run): boom\n"
        "  - invalid: startup in host, block 2 (1 run): odd\n"
        "The report shows everything that could be measured: results/quick/report.html\n"
        "Mend the causes, then `make retry` measures only what failed."
    )


def test_missing_blocks_are_listed(of, tmp_path):
    blocks = whole(of)
    del blocks["startup", 2]
    assert verify.problems(data_of(of, blocks, tmp_path)) == ["missing: startup, block 2"]


def test_what_this_machine_cannot_do_is_no_failure(of, tmp_path):
    assert (
        verify.problems(data_of(of, whole(of, synthetic.fail("skipped", "no root", "chroot")), tmp_path))
        == []
    )


def test_nothing_measured_is_a_failure(of, tmp_path):
    def skip(run):
        run.update(status="skipped", reasons=["no engine"])

    assert verify.problems(data_of(of, whole(of, skip), tmp_path)) == [
        "nothing was measured: every run was skipped; the report lists the remedies"
    ]


def test_a_failure_in_an_attempt_that_was_repeated_is_forgiven(of, tmp_path):
    def bad(run):
        synthetic.disturb(run)
        synthetic.fail("failed", "boom", "docker")(run)

    blocks = whole(of)
    cell = of.expand()[0]
    blocks["startup", 1] = synthetic.join(
        synthetic.block(of, cell, 1, change=bad), synthetic.block(of, cell, 1, attempt=2)
    )
    assert verify.problems(data_of(of, blocks, tmp_path)) == []


@pytest.fixture
def report_now(tmp_path, monkeypatch, capsys):
    """Run scripts/report_now.py in an empty folder; return its exit status and what it said."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["report_now.py", *arguments])
        status = importlib.import_module("report_now").main()
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_report_now_of_what_is_finished(tmp_path, report_now):
    of = synthetic.study(study="half", cells=[{"workload": "startup"}], blocks=3)
    cell = of.expand()[0]
    finished = {("startup", n): synthetic.block(of, cell, n) for n in (1, 2)}
    synthetic.write_blocks(finished, tmp_path / "results" / "half" / "blocks")
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({"study": "half", "cells": [{"workload": "startup"}], "blocks": 3})
    )
    status, out, err = report_now("--config", "mine.yaml")
    assert (status, err) == (0, "")
    assert out.startswith("Study half.\nPartial, 2 of 3 blocks: docker against the host ")
    assert out.endswith("Report: results/half/partial/report.html\n")
    folder = tmp_path / "results" / "half" / "partial"
    assert "partial, 2 of 3 blocks" in (folder / "report.html").read_text()
    assert sorted(path.name for path in (folder / "figures").glob("*.svg")) == [
        "blocks.svg",
        "breakdown.svg",
        "epochs.svg",
        "ladder.svg",
        "options.svg",
        "overhead.svg",
        "startup.svg",
    ]
    assert not (
        tmp_path / "results" / "half" / "tables"
    ).exists()  # the workflow's own outputs stay untouched


def test_report_now_without_blocks_says_one_thing(report_now):
    assert report_now() == (
        1,
        "",
        "no finished block of study quick in results/quick/blocks; start it with: make study\n",
    )


def test_report_now_refuses_a_wrong_config(tmp_path, report_now):
    (tmp_path / "bad.yaml").write_text("blocs: 3\n")
    status, out, err = report_now("--configfile", "bad.yaml")
    assert (status, out) == (1, "")
    assert "blocs: unknown key; did you mean 'blocks'?" in err
    status, out, err = report_now("--config", "none.yaml")
    assert (status, out) == (1, "")
    assert "none.yaml: not a readable config" in err
