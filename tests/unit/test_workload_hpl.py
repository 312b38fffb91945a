"""hpl: sizes, what HPL's table says, and the gate that keeps the other parts of hpcc from running."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import native_runs
import pytest

from tare.workloads import hpcc_files, hpcc_gate, hpl
from tare.workloads.hpcc_files import Problem, SizeError
from tare.workloads.registry import WORKLOADS

RECORDED = (Path(__file__).resolve().parents[1] / "data/hpcc/hpccoutf.txt").read_text()
QUICK = Problem(4032, 192, 1, 2)
ROW = "WR11C2R4        4032   192     1     2               0.30              1.447e+02\n"
RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0025423 ...... PASSED\n"
GIB = 1 << 30


def output(rates: list[str]) -> str:
    """The recorded output with a solve of each rate (Gflops as HPL prints it)."""
    begin, end = RECORDED.index(ROW), RECORDED.index(RESIDUAL) + len(RESIDUAL)
    table = "".join(ROW.replace("1.447e+02", rate) + RESIDUAL for rate in rates)
    return RECORDED[:begin] + table + RECORDED[end:]


SIX = output(["1.400e+02", *["1.447e+02"] * 4, "1.5e+02"])


def test_the_recorded_solve() -> None:
    assert hpl.solved(hpcc_files.section(RECORDED, "HPL")) == [hpl.Solve(QUICK, 144.7e9)]
    assert hpl.output_reasons(RECORDED, QUICK, 1) == []
    assert hpl.output_reasons(SIX, QUICK, 6) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("End of HPL section.", "", "no complete HPL section"),
        ("...... PASSED\n====", "...... FAILED\n====", "the residual of 5 solves passed, of 6"),
        (
            "  4032   192",
            "  3520    80",
            "N, NB, P, Q were (3520, 80, 1, 2), (4032, 192, 1, 2) were asked for",
        ),
        ("  192     1     2", "  192     2     1", "(4032, 192, 2, 1)"),
        ("1.5e+02", "0.000e+00", "a rate of 0"),
        ("1.5e+02", "nan", "a rate of 0 or none"),
        (ROW.replace("1.447", "1.400"), "", "5 solves in the output, 6 were asked for"),
        (
            ROW,
            ">>> [0,1] Memory allocation failed for A, x and b. Skip. <<<\n",
            "Memory allocation failed for A, x and b. Skip. <<<; give the run more memory, or a smaller n",
        ),
    ],
)
def test_what_the_output_denies_is_a_reason(old: str, new: str, says: str) -> None:
    broken = SIX.replace(old, new)
    assert broken != SIX
    assert any(says in reason for reason in hpl.output_reasons(broken, QUICK, 6))


@pytest.mark.parametrize(("ranks", "n"), [(1, 2880), (2, 4032), (4, 5760), (16, 11520), (64, 23040)])
def test_quick_gives_each_rank_the_same_memory_and_is_not_small(ranks: int, n: int) -> None:
    assert hpl.quick_n(ranks) == n
    assert 8 * n**2 / ranks == pytest.approx(66e6, rel=0.02)
    assert not hpl.is_small(n, ranks)


def test_small_sizes() -> None:
    assert hpl.is_small(1919, 1)
    assert not hpl.is_small(1920, 1)
    assert hpl.is_small(2715, 2)
    assert hpl.is_small(3839, 4)


@pytest.mark.parametrize(
    ("n", "count"), [(192, 6), (4032, 6), (7600, 6), (7700, 3), (14_000, 3), (15_000, 1), (50_000, 1)]
)
def test_long_solves_are_fewer(n: int, count: int) -> None:
    assert hpl.solves(n) == count


def test_every_gated_share_is_beyond_the_room() -> None:
    """The quick problem of any number of ranks has the other parts left out; a small one runs all of hpcc."""
    for ranks in range(1, 129):
        assert hpcc_gate.possible(8 * hpl.quick_n(ranks) ** 2 // ranks), ranks
    assert not hpcc_gate.possible(6 * hpcc_gate.ROOM - 1)


MPIRUN = """#!/bin/sh
echo "$@" > arguments
mkfifo finished
hpcc 0 &
first=$!
hpcc 1 &
trap "kill $first $!; exit 143" TERM
wait
printf '%s' '{stderr}' >&2
exit {status}
"""
#: two processes that read and wait as hpcc does, and say what limit they had at each reading
HPCC = """#!{python}
import os, resource, sys
rank = sys.argv[1]
if rank == "1":
    open("finished").read()
    with open("rank1", "w") as file:
        file.write(str(resource.getrlimit(resource.RLIMIT_DATA)[0]))
    sys.exit()
seen = []
for reading in range(3):
    with open("hpccinf.txt") as file:
        text = file.read()
    seen.append("%d %d" % (resource.getrlimit(resource.RLIMIT_DATA)[0], len(text)))
with open("rank0", "w") as file:
    file.write("\\n".join(seen))
os.link("{recorded}", "hpccoutf.txt")
open("finished", "w").close()
"""


def task(folder: Path, monkeypatch: pytest.MonkeyPatch, level: str | int, **mpirun: Any) -> hpl.Hpl:
    """A run of the adapter with a mpirun that starts two processes which read their input as hpcc does."""
    given = {"stderr": "", "status": 0, **mpirun}
    programs, run = folder / "bin", folder / "run"
    programs.mkdir()
    run.mkdir()
    (folder / "recorded").write_text(given.pop("recorded", SIX))
    scripts = {
        "mpirun": MPIRUN.format(**given),
        "hpcc": HPCC.format(python=sys.executable, recorded=folder / "recorded"),
    }
    for name, script in scripts.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr("tare.workloads.hpcc_run.effective_cpus", lambda: 2)
    return hpl.set_up(native_runs.request(run, "hpl", {"n": level}))


def test_a_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(tmp_path, monkeypatch, "quick")
    before = resource.getrlimit(resource.RLIMIT_DATA)[0]
    assert list(made.steps(0)) == [None]
    run = tmp_path / "run"
    text = hpcc_files.input_text(QUICK, 6)
    limits, sizes = zip(*(line.split() for line in (run / "rank0").read_text().splitlines()), strict=True)
    assert sizes == (str(len(text)),) * 3, "each reading gets the whole input"
    assert limits[0] == limits[1] != str(before), "limited from the first reading on"
    assert hpcc_gate.ROOM < int(limits[0]) < hpcc_gate.ROOM + (200 << 20)
    assert limits[2] == str(before), "lifted when HPL reads its input"
    assert (run / "rank1").read_text() == str(before)
    assert not (run / "hpccinf.txt").exists()
    check = made.check()
    assert check.reasons == []
    assert check.facts == {
        "work": {**QUICK._asdict(), "ranks": 2, "solves": 6, "alone": True},
        "small": False,
    }
    found = [(s["metric"], s["phase"], s["index"], s["value"], s["unit"]) for s in made.samples()]
    assert found[:2] == [
        ("hpl_flops", "first", 0, 140e9, "flop/s"),
        ("hpl_flops", "steady", 1, pytest.approx(144.7e9), "flop/s"),
    ]
    assert len(found) == 6
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == before, "the worker itself is not limited"


def test_a_small_problem_runs_all_of_hpcc_and_is_a_metric_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = task(tmp_path, monkeypatch, 2000, recorded=SIX.replace("4032", "2000"))
    monkeypatch.setattr(hpcc_gate, "Gate", None)
    list(made.steps(0))
    limits = {line.split()[0] for line in (tmp_path / "run/rank0").read_text().splitlines()}
    assert limits == {str(resource.getrlimit(resource.RLIMIT_DATA)[0])}
    check = made.check()
    assert check.reasons == []
    assert (check.facts["small"], check.facts["work"]["alone"]) == (True, False)
    assert {s["metric"] for s in made.samples()} == {"hpl_small_flops"}
    stated = {metric.name: (metric.unit, metric.optional) for metric in WORKLOADS["hpl"].metrics}
    assert stated == {"hpl_flops": ("flop/s", True), "hpl_small_flops": ("flop/s", True)}


@pytest.mark.parametrize(
    ("mpirun", "says"),
    [
        ({"status": 3, "stderr": "no such rank"}, "mpirun ended with status 3: no such rank"),
        ({"stderr": "Read -1, expected 64, errno = 1"}, "1 failed copies"),
        ({"recorded": ""}, "no complete HPL section"),
    ],
)
def test_what_makes_a_run_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mpirun: dict[str, Any], says: str
) -> None:
    made = task(tmp_path, monkeypatch, "quick", **mpirun)
    list(made.steps(0))
    assert any(says in reason for reason in made.check().reasons)


def test_mpirun_that_ends_at_once_is_no_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = task(tmp_path, monkeypatch, "quick")
    (tmp_path / "bin/mpirun").write_text("#!/bin/sh\necho 'no slots' >&2\nexit 1\n")
    list(made.steps(0))
    assert made.check().reasons[0] == "mpirun ended with status 1: no slots"


def test_ranks_that_cannot_be_found_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(tmp_path, monkeypatch, "quick")
    monkeypatch.setattr(hpcc_gate, "children", lambda *_: [1])
    with pytest.raises(hpcc_gate.GateError, match=r"1 processes hpcc below mpirun, 2 are expected"):
        list(made.steps(0))


def test_more_ranks_than_cpus_are_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(tmp_path, monkeypatch, "quick")
    monkeypatch.setattr("tare.workloads.hpcc_run.effective_cpus", lambda: 1)
    assert made.run_reasons()[0] == "ranks: 2 asked for, 1 effective CPUs; set threads to at most that"


def test_a_matrix_that_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SizeError, match=r"192 … \d+ is possible"):
        task(tmp_path, monkeypatch, 60_000)


def test_children_are_told_by_parent_and_name() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert hpcc_gate.children(os.getpid(), "cat") == [child.pid]
        assert hpcc_gate.children(child.pid, "cat") == []
        assert hpcc_gate.data_bytes(child.pid) > 0
    with pytest.raises(hpcc_gate.GateError, match=r"does not tell VmData"):
        hpcc_gate.data_bytes(child.pid, "/nowhere")
