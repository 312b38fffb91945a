"""A small real study of layers: native programs, a peer, the ladder and the star, from sources to verdicts."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkouts import ROOT, Checkout, copy_checkout

pytestmark = [
    pytest.mark.engine,
    pytest.mark.root,
    pytest.mark.needs("mmdebstrap", "hpc_host", "chroot", "native", "crun"),
]
STUDY = ("--configfile", str(ROOT / "tests/data/studies/layers.yaml"))
SYSCALL, LATENCY = "syscall+batches=5", "net-latency+seconds=1"
LADDER = ("chroot", "ladder-network", "ladder-seccomp", "docker")


def rows(checkout: Checkout, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(
        checkout.path / f"results/layers/tables/{table}.parquet"
    ).to_pylist()
    return found


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    checkout = copy_checkout(tmp_path_factory.mktemp("layers") / "tare", own_cache=False)
    ran = checkout.snakemake(*STUDY, timeout=900)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    return checkout


def test_every_runtime_of_every_cell_gave_numbers(studied: Checkout) -> None:
    runs = rows(studied, "runs")
    assert {(run["status"], *run["reasons"]) for run in runs} == {("ok",)}
    of_cell = {cell: {r["runtime"] for r in runs if r["cell"] == cell} for cell in (SYSCALL, LATENCY)}
    assert of_cell == {
        SYSCALL: {*LADDER, "docker-unconfined", "docker-shm"},
        LATENCY: {"chroot", "docker", "docker-host-network"},
    }


def test_the_native_program_is_the_same_bytes_in_every_runtime(studied: Checkout) -> None:
    prints = [json.loads(run["fingerprint"]) for run in rows(studied, "runs") if run["cell"] == SYSCALL]
    built = json.loads((studied.path / "results/software/native/syscall.json").read_text())
    assert {one["software"]["sha256"] for one in prints} == {built["sha256"]}


def test_each_step_of_the_ladder_and_the_star_has_its_rows(studied: Checkout) -> None:
    found = rows(studied, "comparisons")
    kinds = {
        (row["contrast"], row["level"], row["treatment"], row["reference"])
        for row in found
        if (row["cell"], row["metric"]) == (SYSCALL, "getpid_seconds")
    }
    assert kinds == {
        ("runtime", None, "docker", "chroot"),
        ("ladder", "namespaces", "ladder-network", "chroot"),
        ("ladder", "control group, capabilities, seccomp", "ladder-seccomp", "ladder-network"),
        ("ladder", "engine", "docker", "ladder-seccomp"),
        ("star", "seccomp", "docker", "docker-unconfined"),
        ("option", "/dev/shm", "docker-shm", "docker"),
        *((row["contrast"], row["level"], row["treatment"], row["reference"]) for row in interactions(found)),
    }
    assert len(interactions(found)) == 1
    assert {row["parity"] for row in found} == {"same"}


def interactions(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in found if row["contrast"] == "interaction" and row["metric"] == "getpid_seconds"]


def test_the_ladders_steps_multiply_to_the_total(studied: Checkout) -> None:
    found = [row for row in rows(studied, "comparisons") if row["metric"] == "getpid_seconds"]
    product = 1.0
    for row in found:
        if row["contrast"] == "ladder":
            product *= row["ratio"]
    [total] = [row["ratio"] for row in found if row["contrast"] == "runtime"]
    assert product == pytest.approx(total, rel=1e-9)


def test_the_seccomp_filter_is_there_where_it_should_be(studied: Checkout) -> None:
    modes = {
        run["runtime"]: json.loads(run["fingerprint"])["process"]["status"]["Seccomp"]
        for run in rows(studied, "runs")
        if run["cell"] == SYSCALL
    }
    assert {name: str(mode) for name, mode in modes.items()} == {
        "chroot": "0",
        "ladder-network": "0",
        "ladder-seccomp": "2",
        "docker": "2",
        "docker-unconfined": "0",
        "docker-shm": "2",
    }


def test_each_runtime_took_its_own_path(studied: Checkout) -> None:
    facts = {
        run["runtime"]: json.loads(run["fingerprint"])["check"]
        for run in rows(studied, "runs")
        if run["cell"] == LATENCY
    }
    ends = {name: {one["local_address"], one["remote_address"]} for name, one in facts.items()}
    assert ends["chroot"] == ends["docker-host-network"] == {"127.0.0.1"}
    assert len(ends["docker"]) == 2, "two containers, each with an address of its own"
    assert not any(address.startswith("127.") for address in ends["docker"])


def test_an_edited_program_measures_its_own_cell_again_and_a_broken_one_is_a_row(studied: Checkout) -> None:
    source = studied.path / "src/tare/native/syscall/main.c"
    before = source.read_text()
    try:
        source.write_text(before + "\n#error broken on purpose\n")
        would = studied.would_run(*STUDY)
        assert (would["build_native"], would["measure_block"]) == (1, 2)
        broken = studied.snakemake(*STUDY)
        assert broken.returncode != 0
        runs = rows(studied, "runs")
        assert {run["status"] for run in runs if run["cell"] == LATENCY} == {"ok"}
        failed = [run for run in runs if run["cell"] == SYSCALL]
        assert {run["status"] for run in failed} == {"failed"}
        assert all("broken on purpose" in "; ".join(run["reasons"]) for run in failed)
    finally:
        source.write_text(before)
