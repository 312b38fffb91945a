"""hpl, dgemm and stream for real: by the worker as installed, and hpl in the strictest container."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_workloads import only, run, run_strictly

from tare.worker.caches import last_level_bytes
from tare.worker.cpus import effective_cpus
from tare.workloads import hpcc_files, hpl

QUICK = {"n": "quick"}
LARGE = 64 << 30


def values(found: list[dict[str, Any]], metric: str, phase: str = "steady") -> list[float]:
    """Return the samples of a metric of a valid run."""
    assert only(found, "check")["reasons"] == []
    samples = [event for event in found if event["event"] == "sample" and event["metric"] == metric]
    return [sample["value"] for sample in samples if sample["phase"] == phase]


def assert_hpl(found: list[dict[str, Any]], folder: Path) -> None:
    assert all(rate > 1e8 for rate in values(found, "hpl_flops"))
    work = only(found, "check")["facts"]["work"]
    assert (work["n"], work["ranks"], work["alone"]) == (
        hpl.quick_n(effective_cpus()),
        effective_cpus(),
        True,
    )
    assert len(values(found, "hpl_flops")) + len(values(found, "hpl_flops", "first")) == work["solves"]
    software = only(found, "fingerprint")["software"]
    assert len(software["bindings"]) == effective_cpus()
    text = (folder / "hpccoutf.txt").read_text(errors="replace")
    ran = {sample["metric"] for sample in hpcc_files.samples(text, effective_cpus())}
    assert ran - {"latency"} == {"hpl_flops"}, "another part of hpcc has run"


@pytest.mark.needs("hpc_host")
def test_hpl_as_installed(tmp_path: Path) -> None:
    assert_hpl(run(sys.executable, tmp_path, workload="hpl", factors=QUICK, memory_bytes=LARGE), tmp_path)


@pytest.mark.engine
@pytest.mark.needs("hpc_host")
def test_hpl_with_nothing_but_its_output_folder(tmp_path: Path, tiny_image: str) -> None:
    """The limits of the ranks are set and lifted without any capability, by a user without a name."""
    found = run_strictly(tiny_image, tmp_path, workload="hpl", factors=QUICK, memory_bytes=LARGE)
    assert_hpl(found, tmp_path)


@pytest.mark.needs("hpc_host")
@pytest.mark.parametrize("precision", ["double", "single"])
def test_dgemm_as_installed(tmp_path: Path, precision: str) -> None:
    """OpenBLAS takes the number of its threads from the environment, which the measuring side sets."""
    threads = {"OPENBLAS_NUM_THREADS": str(effective_cpus())}
    factors = {"n": 500, "precision": precision}
    found = run(sys.executable, tmp_path, threads, workload="dgemm", factors=factors)
    assert len(values(found, "gemm_flops")) == 8
    assert only(found, "check")["facts"]["work"]["threads"] == effective_cpus()
    assert any("openblas" in path for path in only(found, "fingerprint")["libraries"])


def test_stream_by_the_worker(tmp_path: Path, native_program: Callable[[str], Path]) -> None:
    shutil.copy(native_program("stream"), tmp_path / "stream")
    found = run(sys.executable, tmp_path, workload="stream", factors={"bytes": "quick"}, memory_bytes=LARGE)
    for kernel in ("copy", "scale", "add", "triad"):
        assert all(1e8 < rate < 1e13 for rate in values(found, f"stream_{kernel}"))
    assert only(found, "check")["facts"]["work"]["array_bytes"] >= 4 * last_level_bytes()
