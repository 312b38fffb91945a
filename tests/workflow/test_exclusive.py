"""Nothing of the workflow runs beside a measured run, whatever options Snakemake is given; nor do two Snakemakes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from checkouts import ROOT, Checkout, copy_checkout

HOST = str(ROOT / "tests/data/studies/host.yaml")
#: jobs that are ready together with the blocks and busy for about as long as one
RIVALS = """
rule rival:
    output:
        "results/rivals/{number}",
    log:
        "results/rivals/{number}.log",
    shell:
        "python rival.py > {log} 2>&1; touch {output}"


share_machine()
"""
TARGETS = [f"results/rivals/{n}" for n in range(6)] + [
    f"results/host/blocks/startup/{n}.parquet" for n in (1, 2)
]


class Job(NamedTuple):
    """One finished job by Snakemake's own record."""

    rule: str
    output: str
    start: float
    end: float


def jobs(checkout: Checkout) -> list[Job]:
    found = []
    for path in (checkout.path / ".snakemake/metadata").rglob("*"):
        if path.is_file():
            record = json.loads(path.read_text())
            if "starttime" in record:
                found.append(Job(record["rule"], path.name, record["starttime"], record["endtime"]))
    return found


def overlapping(all_jobs: list[Job]) -> list[tuple[Job, Job]]:
    """Pairs of a measuring job and any other that ran at the same time."""
    return [
        (measuring, other)
        for measuring in all_jobs
        if measuring.rule == "measure_block"
        for other in all_jobs
        if other != measuring and other.start < measuring.end and measuring.start < other.end
    ]


@pytest.fixture
def with_rivals(tmp_path: Path) -> Checkout:
    checkout = copy_checkout(tmp_path / "tare")
    checkout.replace("Snakefile", "\nshare_machine()\n", RIVALS)
    (checkout.path / "rival.py").write_text(
        "import time\nend = time.monotonic() + 0.4\nwhile time.monotonic() < end:\n    pass\n"
    )
    (checkout.path / "profiles/other").mkdir()
    (checkout.path / "profiles/other/config.yaml").write_text("keep-going: true\nresources:\n  disk: 3\n")
    return checkout


def test_overlaps_are_seen_when_they_happen() -> None:
    """The check itself can fail."""
    block = Job("measure_block", "a", 10.0, 20.0)
    assert overlapping([block, Job("rival", "b", 19.9, 30.0)]) == [(block, Job("rival", "b", 19.9, 30.0))]
    assert overlapping([block, Job("rival", "b", 20.0, 30.0), Job("rival", "c", 1.0, 10.0)]) == []


@pytest.mark.needs("hpc_host")
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--resources", "foo=1"],
        ["--resources", "machine=1000"],
        ["--default-resources", "mem_mb=10"],
        ["--default-resources", "machine=0"],
        ["--set-threads", "measure_block=1"],
        ["--max-threads", "1"],
        ["--workflow-profile", "none"],
        ["--profile", "profiles/other"],
        ["--workflow-profile", "profiles/other"],
        ["--scheduler", "greedy"],
    ],
    ids=" ".join,
)
def test_nothing_runs_beside_a_measured_block(with_rivals: Checkout, options: list[str]) -> None:
    ran = with_rivals.snakemake(*options, "--configfile", HOST, "--", *TARGETS, cores="8")
    assert ran.returncode == 0, ran.stderr
    timeline = jobs(with_rivals)
    assert sum(job.rule == "rival" for job in timeline) == 6
    assert sum(job.rule == "measure_block" for job in timeline) == 2
    assert overlapping(timeline) == []


@pytest.mark.needs("hpc_host")
def test_two_snakemakes_in_two_folders_never_measure_at_once(tmp_path: Path) -> None:
    checkouts = [copy_checkout(tmp_path / name) for name in ("one", "two")]
    blocks = [f"results/host/blocks/startup/{n}.parquet" for n in range(1, 7)]
    command = [str(Path(sys.executable).parent / "snakemake"), "--cores", "all", "--configfile", HOST]
    started = [
        subprocess.Popen(
            [*command, "--config", "blocks=6", "--", *blocks], cwd=c.path, stderr=subprocess.PIPE, text=True
        )
        for c in checkouts
    ]
    for process in started:
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
    runs = [
        (
            row["started_at"].timestamp(),
            row["started_at"].timestamp() + row["seconds_total"],
            checkout.path.name,
        )
        for checkout in checkouts
        for block in blocks
        for row in pq.read_table(checkout.path / block).to_pylist()
    ]
    runs.sort()
    assert len(runs) == 2 * 6 * 2
    overlaps = [(a, b) for a, b in itertools.pairwise(runs) if b[0] < a[1]]
    assert overlaps == []
    # They did compete: the folders alternate instead of one following the other.
    assert min(start for start, _, name in runs if name == "two") < max(
        end for _, end, name in runs if name == "one"
    )
