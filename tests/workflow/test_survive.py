"""Snakemake is interrupted in mid-block: finished blocks stay, nothing half-written or running is left, it goes on."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from checkouts import ROOT, Checkout

from tare import records

STUDY = str(ROOT / "tests/data/studies/host-hpcc.yaml")
FINISHED = "results/host-hpcc/blocks/startup/1.parquet"
CUT_OFF = "results/host-hpcc/blocks/hpcc+n=2000/1.parquet"
PATIENCE = 60.0


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.02)


def measuring(checkout: Checkout) -> list[int]:
    """Processes that belong to a run of this checkout or measure its blocks."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(checkout.path) in str((entry / "cwd").readlink()):
                line = (entry / "cmdline").read_bytes()
                if b"tare.worker" in line or b"measure_block.py" in line or b"hpcc" in line.split(b"\0")[0]:
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def in_mid_run(checkout: Checkout) -> bool:
    return any((checkout.path / "results/host-hpcc/scratch").glob("*/*/hpccoutf.txt"))


@pytest.fixture
def interrupted(checkout: Checkout) -> Iterator[tuple[Checkout, subprocess.Popen[str]]]:
    """A study with one finished block, and Snakemake in the middle of the next."""
    assert checkout.snakemake("--configfile", STUDY, "--", FINISHED).returncode == 0
    snakemake = checkout.start_snakemake("--configfile", STUDY, "--", CUT_OFF)
    until(lambda: in_mid_run(checkout), "a run of hpcc has started")
    yield checkout, snakemake
    if snakemake.poll() is None:
        os.killpg(snakemake.pid, signal.SIGKILL)
    snakemake.communicate()


def send_to_all(signum: signal.Signals) -> Callable[[subprocess.Popen[str], Checkout], None]:
    """As a terminal or a service manager does: to the whole process group."""
    return lambda snakemake, _: os.killpg(snakemake.pid, signum)


def send_to_snakemake(signum: signal.Signals) -> Callable[[subprocess.Popen[str], Checkout], None]:
    return lambda snakemake, _: os.kill(snakemake.pid, signum)


def send_to_measuring(signum: signal.Signals) -> Callable[[subprocess.Popen[str], Checkout], None]:
    def send(_: subprocess.Popen[str], checkout: Checkout) -> None:
        for pid in measuring(checkout):
            if b"\0scripts/measure_block.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signum)

    return send


def send_to_worker(_: subprocess.Popen[str], checkout: Checkout) -> None:
    for pid in measuring(checkout):
        if b"tare.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


ATTACKS = {
    "Ctrl-C": send_to_all(signal.SIGINT),
    "SIGTERM to all": send_to_all(signal.SIGTERM),
    "SIGTERM to Snakemake": send_to_snakemake(signal.SIGTERM),
    "kill -9 of Snakemake": send_to_snakemake(signal.SIGKILL),
    "kill -9 of all": send_to_all(signal.SIGKILL),
    "kill -9 of the measuring process": send_to_measuring(signal.SIGKILL),
    "SIGTERM to the measuring process": send_to_measuring(signal.SIGTERM),
}


@pytest.mark.needs("hpc_host")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_study_survives(interrupted: tuple[Checkout, subprocess.Popen[str]], attack: str) -> None:
    checkout, snakemake = interrupted
    before = hashlib.sha256((checkout.path / FINISHED).read_bytes()).hexdigest()

    ATTACKS[attack](snakemake, checkout)
    snakemake.wait(PATIENCE)
    until(lambda: not measuring(checkout), "every process of the run has ended")

    assert snakemake.returncode != 0
    folder = checkout.path / "results/host-hpcc/blocks"
    whole = sorted(str(path.relative_to(checkout.path)) for path in folder.rglob("*") if path.is_file())
    assert FINISHED in whole
    assert set(whole) <= {FINISHED, CUT_OFF}, "a block is there whole or not at all"
    for block in whole:
        records.read(checkout.path / block, records.BLOCK)
    again = checkout.snakemake("--unlock", "--configfile", STUDY)
    assert again.returncode == 0, again.stderr
    resumed = checkout.snakemake("--configfile", STUDY, "--", FINISHED, CUT_OFF)
    assert resumed.returncode == 0, resumed.stderr
    assert hashlib.sha256((checkout.path / FINISHED).read_bytes()).hexdigest() == before
    rows = pq.read_table(checkout.path / CUT_OFF).to_pylist()
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert list((checkout.path / "results/host-hpcc/scratch").iterdir()) == []
    assert measuring(checkout) == []


@pytest.mark.needs("hpc_host")
def test_a_killed_worker_is_a_failed_run_with_its_reason(
    interrupted: tuple[Checkout, subprocess.Popen[str]],
) -> None:
    checkout, snakemake = interrupted
    send_to_worker(snakemake, checkout)
    assert snakemake.wait(PATIENCE) == 0, "the block ends with a file: what failed is a row in it"
    rows = pq.read_table(checkout.path / CUT_OFF).to_pylist()
    assert [row["status"] for row in rows] == ["failed", "ok"]
    assert "SIGKILL" in "; ".join(rows[0]["reasons"])
    assert rows[0]["samples"] == []
    kept = checkout.path / "results/host-hpcc/logs/runs/hpcc+n=2000/1/1-0-host"
    assert (kept / "request.json").is_file()


@pytest.mark.needs("hpc_host")
def test_plain_snakemake_says_what_to_type_after_a_kill(
    interrupted: tuple[Checkout, subprocess.Popen[str]],
) -> None:
    checkout, snakemake = interrupted
    os.killpg(snakemake.pid, signal.SIGKILL)
    snakemake.wait(PATIENCE)
    until(lambda: not measuring(checkout), "every process of the run has ended")
    refused = checkout.snakemake("--configfile", STUDY, "--", CUT_OFF)
    assert refused.returncode == 1
    assert "--unlock" in refused.stdout + refused.stderr
