"""hpcc: its input file, a recorded output (Debian's hpcc 1.5.0, two ranks, N=4032), and what makes it invalid."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from adapter_requests import adapter_request
from tare.worker.request import Request
from tare.workloads import hpc_software, hpcc, hpcc_files, hpcc_run, mpi
from tare.workloads.hpcc_files import Problem, SizeError
from tare.workloads.registry import WORKLOADS

RECORDED = Path(__file__).resolve().parents[1] / "data/hpcc/hpccoutf.txt"
QUICK = Problem(4032, 192, 1, 2)
GB = 10**9


@pytest.fixture
def text() -> str:
    return RECORDED.read_text()


def test_recorded_output_gives_si_units(text: str) -> None:
    found = {sample["metric"]: (sample["value"], sample["unit"]) for sample in hpcc_files.samples(text, 2)}
    assert found == {
        "hpl_flops": (pytest.approx(144.737e9), "flop/s"),
        "dgemm_flops": (pytest.approx(96.2422e9), "flop/s"),
        "stream_triad": (pytest.approx(27.1947e9), "B/s"),
        "fft_flops": (pytest.approx(7.07098e9), "flop/s"),
        "random_access": (pytest.approx(0.0298188e9), "update/s"),
        "ptrans": (pytest.approx(4.4695e9), "B/s"),
        "latency": (pytest.approx(0.109783e-6), "s"),
    }
    assert {(s["phase"], s["epoch"], s["index"]) for s in hpcc_files.samples(text, 2)} == {
        ("steady", None, 0)
    }


def test_metrics_are_those_of_the_workload() -> None:
    stated = [(metric.name, metric.unit, metric.phase) for metric in WORKLOADS["hpcc"].metrics]
    assert stated == [(name, unit, "steady") for name, (_, _, unit) in hpcc_files.METRICS.items()]


def test_recorded_output_is_valid(text: str) -> None:
    assert hpcc_files.output_reasons(text, QUICK) == []
    assert hpcc_files.hpl_over_dgemm(text, 2) == pytest.approx(144.737 / (2 * 96.2422))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Success=1", "Success=0", "Success=0"),
        ("...... PASSED", "...... FAILED", "HPL: its residual"),
        (" PASSED    ", " FAILED    ", "PTRANS: its check"),
        ("WALL ", "WAIL ", "PTRANS: its check"),
        (
            "0 tests completed and failed residual checks",
            "3 tests completed and failed residual checks",
            "3 tests",
        ),
        ("Node(s) with error 0", "Node(s) with error 2", "2 node(s)"),
        ("MPIRandomAccess_ErrorsFraction=0", "MPIRandomAccess_ErrorsFraction=0.02", "lost updates 0.02"),
        (
            "MPIRandomAccess_LCG_ErrorsFraction=0",
            "MPIRandomAccess_LCG_ErrorsFraction=?",
            "MPIRandomAccess_LCG",
        ),
        ("HPL_N=4032", "HPL_N=1000", "HPL_N=1000, 4032"),
        ("HPL_npcol=2", "HPL_npcol=1", "HPL_npcol=1"),
        ("CommWorldProcs=2", "CommWorldProcs=1", "1 ranks ran"),
        ("PTRANS_GBs=", "PTRANS_GBs=-", "no positive value for ptrans"),
        ("StarSTREAM_Triad=", "StarSTREAM_Triod=", "no positive value for stream_triad"),
        ("End of Summary section.", "", "no complete summary"),
    ],
)
def test_what_the_tool_or_the_numbers_deny_is_a_reason(text: str, old: str, new: str, says: str) -> None:
    broken = text.replace(old, new)
    assert broken != text
    reasons = hpcc_files.output_reasons(broken, QUICK)
    assert any(says in reason for reason in reasons), reasons


def test_an_empty_output_has_one_reason_and_no_sample() -> None:
    assert len(hpcc_files.output_reasons("", QUICK)) == 1
    assert hpcc_files.samples("", 2) == []


def test_one_rank_has_no_latency(text: str) -> None:
    alone = text.replace("HPL_npcol=2", "HPL_npcol=1").replace("CommWorldProcs=2", "CommWorldProcs=1")
    alone = alone.replace("AvgPingPongLatency_usec=0.109783", "AvgPingPongLatency_usec=0")
    assert "latency" not in {sample["metric"] for sample in hpcc_files.samples(alone, 1)}
    assert hpcc_files.output_reasons(alone, Problem(4032, 192, 1, 1)) == []


@pytest.mark.parametrize(
    ("ranks", "grid"),
    [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (4, (2, 2)), (6, (2, 3)), (12, (3, 4)), (64, (8, 8))],
)
def test_grid_is_as_square_as_it_can_be(ranks: int, grid: tuple[int, int]) -> None:
    assert hpcc_files.problem("quick", ranks, 24 * GB) == Problem(4032, 192, *grid)


def test_full_fills_seventy_percent_of_memory() -> None:
    n = hpcc_files.problem("full", 2, 24 * GB).n
    assert n % 192 == 0
    assert 8 * n * n <= 0.7 * 24 * GB < 8 * (n + 192) ** 2


@pytest.mark.parametrize(("level", "memory"), [(60_000, 24 * GB), (100, 24 * GB), ("quick", 100_000_000)])
def test_a_matrix_that_does_not_fit_is_refused(level: str | int, memory: int) -> None:
    with pytest.raises(SizeError, match=r"192 … \d+ is possible"):
        hpcc_files.problem(level, 2, memory)


def test_input_file_has_the_problem_in_its_lines() -> None:
    lines = hpcc_files.input_text(Problem(5000, 192, 2, 3)).splitlines()
    assert [lines[number - 1].split()[0] for number in (6, 8, 11, 12)] == ["5000", "192", "2", "3"]
    assert "no. 32" in lines[31]
    assert len(lines) == 36


def test_failed_copies_between_ranks_are_found() -> None:
    line = "[node:7] Read -1, expected 5000, errno = 1\n"
    assert mpi.stderr_reasons(line * 200) == [
        "MPI: 200 failed copies between ranks, first: Read -1, expected 5000, errno = 1"
    ]
    assert mpi.stderr_reasons("Core: Zen\n") == []


def request_of(factors: dict[str, Any], output: str) -> Request:
    return adapter_request("hpcc", output, factors, threads=2, memory_bytes=24 * GB)


@pytest.mark.parametrize(
    ("level", "works", "chosen"),
    [
        ("none", True, "none"),
        ("cma", False, "cma"),  # asked for: the copies fail, and with them the run
        ("possible", True, "cma"),
        ("possible", False, "none"),
    ],
)
def test_case_34_single_copy_is_as_asked_or_as_the_runtime_allows(
    level: str, works: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi, "single_copy_works", lambda: works)
    assert mpi.chosen_single_copy(level) == chosen


def test_whether_single_copies_work_is_tried() -> None:
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    status = Path("/proc/self/status").read_text()
    capable = (
        int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16) >> 19 & 1
    )
    confined = scope.exists() and scope.read_text().strip() != "0" and not capable
    assert mpi.single_copy_works() is (not confined and "Seccomp:\t0" in status)


def test_variables_are_equal_but_for_root_and_the_output_folder() -> None:
    user, root = mpi.environment("/tare", 1000), mpi.environment("/tare", 0)
    assert set(root) - set(user) == {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}
    assert user["OMPI_MCA_btl_vader_single_copy_mechanism"] == "none"
    assert user["OPENBLAS_NUM_THREADS"] == user["OMP_NUM_THREADS"] == "1"
    assert {key: root[key] for key in user} == user


def test_bindings_without_host_and_process() -> None:
    stderr = "[a:2] MCW rank 1 bound to socket 0[core 1[hwt 0]]: [./B]\n[a:2] MCW rank 0 bound to x: [B/.]\nCore: Zen\n"
    assert mpi.bindings(stderr) == [
        "rank 0 bound to x: [B/.]",
        "rank 1 bound to socket 0[core 1[hwt 0]]: [./B]",
    ]


@pytest.mark.parametrize("free", [None, (16 << 20) - 1])
def test_small_shared_memory_is_refused(free: int | None) -> None:
    with pytest.raises(mpi.MpiError, match="shm-too-small: 2 ranks need 16777216 bytes"):
        mpi.check_shared_memory(2, free)
    mpi.check_shared_memory(2, 16 << 20)


def test_installed_packages_by_name(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(
        "Package: hpcc-data\nVersion: 9\n\nPackage: hpcc\nStatus: install ok installed\nVersion: 1.5.0-3\n"
        "Description: x\n\nPackage: gone\nStatus: deinstall ok config-files\n\nPackage: other\nVersion: 3\n"
    )
    found = hpc_software.debian_packages(["hpcc", "gone", "none"], str(status))
    assert found == {"hpcc": "1.5.0-3", "gone": None, "none": None}
    assert hpc_software.debian_packages(["hpcc"], str(tmp_path / "absent")) == {"hpcc": None}


def test_absent_blas_is_none() -> None:
    assert hpc_software.openblas("libnotthere.so.0") is None


MPIRUN = """#!/bin/sh
echo "$@" > arguments; env > variables
cp {recorded} hpccoutf.txt
printf '%s' '{stderr}' >&2
exit {status}
"""


def task(folder: Path, monkeypatch: pytest.MonkeyPatch, n: str = "quick", **mpirun: Any) -> hpcc.Hpcc:
    """A run of the adapter whose mpirun copies the recorded output."""
    given = {"recorded": RECORDED, "stderr": "", "status": 0, **mpirun}
    programs = folder / "bin"
    programs.mkdir()
    for name, script in (("mpirun", MPIRUN.format(**given)), ("hpcc", "#!/bin/sh\n")):
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    output = folder / "output"
    output.mkdir()
    factors = {"n": n, "single_copy": "none"}
    request = request_of(factors, str(output))
    return hpcc.set_up(request)


def test_adapter_runs_mpirun_in_the_output_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(tmp_path, monkeypatch, stderr="Core: Zen\nCore: Zen\n[n:1] MCW rank 0 bound to c: [B]\n")
    assert (made.epochs, made.timed) == (1, False)
    assert list(made.steps(0)) == [None]
    output = tmp_path / "output"
    assert (output / "arguments").read_text().split() == [
        *("--host", "localhost:2", "-np", "2", "--map-by", "core", "--bind-to", "core:overload-allowed"),
        *("--report-bindings", str(tmp_path / "bin/hpcc")),
    ]
    variables = dict(
        line.split("=", 1) for line in (output / "variables").read_text().splitlines() if "=" in line
    )
    assert variables["TMPDIR"] == str(output / "mpi")
    assert variables["OPENBLAS_NUM_THREADS"] == "1"
    check = made.check()
    assert check.reasons == []
    assert check.facts == {
        "n": 4032,
        "nb": 192,
        "p": 1,
        "q": 2,
        "ranks": 2,
        "hpl_over_dgemm": pytest.approx(0.751941),
    }
    assert len(made.samples()) == 7
    software = made.software()
    assert software["hpcc"] == "1.5.0"
    assert software["openblas_cores"] == ["Zen"]
    assert software["bindings"] == ["rank 0 bound to c: [B]"]
    assert str(output) not in str(software), "a path of one run is no software"


@pytest.mark.parametrize(
    ("mpirun", "says"),
    [
        ({"status": 3, "stderr": "no such rank"}, "mpirun ended with status 3: no such rank"),
        ({"stderr": "Read -1, expected 64, errno = 1"}, "1 failed copies"),
        ({"recorded": "/dev/null"}, "no complete summary"),
    ],
)
def test_adapter_says_why_a_run_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mpirun: dict[str, Any], says: str
) -> None:
    made = task(tmp_path, monkeypatch, **mpirun)
    list(made.steps(0))
    assert any(says in reason for reason in made.check().reasons)


def test_full_size_must_reach_its_share_of_dgemm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(tmp_path, monkeypatch, n="full")
    list(made.steps(0))
    assert any("HPL reaches 0.752 of DGEMM" in reason for reason in made.check().reasons)


def test_absent_program_is_named_with_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    request = request_of({"n": "quick", "single_copy": "none"}, str(tmp_path))
    with pytest.raises(
        hpcc_run.HpccError, match="mpirun is not installed; install the packages hpcc, openmpi-bin"
    ):
        hpcc.set_up(request)
    assert shutil.which("mpirun") is None
