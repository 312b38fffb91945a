"""A small real study, fresh checkout to report, with real Docker: and what becomes of it when things break."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from checkouts import ROOT, Checkout, copy_checkout
from tare import records
from tare.paths import cache_dir

pytestmark = [pytest.mark.engine, pytest.mark.needs("mmdebstrap", "hpc_host", "host_python")]
STUDY = ("--configfile", str(ROOT / "tests/data/studies/small.yaml"))
TRAIN = "train-torch-fcn5+batch=128+epochs=2+samples=512"
CELLS = {"startup", TRAIN}


def rows(checkout: Checkout, table: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(
        checkout.path / f"results/small/tables/{table}.parquet"
    ).to_pylist()
    return found


def contents(folder: Path) -> dict[str, str]:
    """File → sha256 of everything derived from the blocks."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("tables", "figures", "report.html", "summary.md")
        for path in sorted([folder / part] if (folder / part).is_file() else (folder / part).rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The study, run once from a fresh checkout; the machine's own cache of images and wheels is used."""
    checkout = copy_checkout(tmp_path_factory.mktemp("study") / "tare", own_cache=False)
    ran = checkout.snakemake(*STUDY, timeout=900)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    return checkout


@pytest.fixture
def study(studied: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the finished study to break."""
    shutil.copytree(studied.path, tmp_path / "tare", symlinks=True)
    return Checkout(tmp_path / "tare", own_cache=False)


def test_every_run_of_every_block_is_a_row(studied: Checkout, require: Callable[[str], None]) -> None:
    require("chroot")
    runs = rows(studied, "runs")
    assert {(run["cell"], run["block"], run["runtime"], run["role"]) for run in runs} == {
        (cell, block, runtime, role)
        for cell in CELLS
        for block in (1, 2)
        for runtime, role in (
            ("host", "measure"),
            ("chroot", "measure"),
            ("docker", "measure"),
            ("chroot", "control"),
        )
    }
    assert {run["status"] for run in runs} == {"ok"}, [
        run["reasons"] for run in runs if run["status"] != "ok"
    ]
    for run in runs:
        assert 0 < run["seconds_to_start"] < run["seconds_to_ready"] < run["seconds_total"]  # type: ignore[operator]
        assert run["cpu_seconds"] > 0  # type: ignore[operator]
        fingerprint = json.loads(str(run["fingerprint"]))
        assert set(fingerprint) >= {"node", "launch", "process", "software", "libraries", "check"}


def test_the_runs_of_a_block_do_not_overlap_in_time(studied: Checkout) -> None:
    runs = sorted(
        (run["started_at"].timestamp(), run["started_at"].timestamp() + run["seconds_total"])  # type: ignore[attr-defined]
        for run in rows(studied, "runs")
    )
    assert all(later[0] >= earlier[1] for earlier, later in itertools.pairwise(runs))


def test_epoch_zero_was_cold_in_every_runtime(studied: Checkout) -> None:
    for run in rows(studied, "runs"):
        if run["cell"] == TRAIN:
            assert run["resident_before"] == 0.0, run["runtime"]
            assert [flag for flag in run["flags"] if flag.startswith("unverified")] == []  # type: ignore[attr-defined]


def test_the_same_work_was_done_with_the_same_software(studied: Checkout) -> None:
    found = [row for row in rows(studied, "comparisons") if row["cell"] == TRAIN]
    parity = {(row["treatment"], row["reference"]): row["parity"] for row in found}
    assert parity[("docker", "chroot")] == "same"
    assert parity[("docker", "host")] in ("same", "userland")
    assert {row["blocks"] for row in found} == {2}
    losses = {
        tuple(json.loads(str(run["fingerprint"]))["check"]["loss_hex"])
        for run in rows(studied, "runs")
        if run["cell"] == TRAIN and run["runtime"] != "host"
    }
    assert len(losses) == 1, "docker and chroot run the same files: their losses are bit-identical"


def test_starting_docker_costs_and_the_table_says_so(studied: Checkout) -> None:
    [start] = [
        row
        for row in rows(studied, "comparisons")
        if (row["metric"], row["treatment"], row["reference"]) == ("start_seconds", "docker", "chroot")
    ]
    assert start["ratio"] > 2  # type: ignore[operator]


def test_a_finished_study_is_a_no_op(studied: Checkout) -> None:
    assert studied.would_run(*STUDY) == {}


def test_derived_files_are_rebuilt_bit_identically(study: Checkout) -> None:
    folder = study.path / "results/small"
    before = contents(folder)
    assert len(before) == 3 + 14 + 2
    for part in ("tables", "figures"):
        shutil.rmtree(folder / part)
    (folder / "report.html").unlink()
    assert "measure_block" not in study.would_run(*STUDY)
    assert study.snakemake(*STUDY).returncode == 0
    assert contents(folder) == before


def test_more_blocks_change_no_earlier_one(study: Checkout) -> None:
    blocks = study.path / "results/small/blocks"
    before = {path: path.read_bytes() for path in blocks.rglob("*.parquet")}
    assert study.snakemake(*STUDY, "--config", "blocks=3").returncode == 0
    after = {path: path.read_bytes() for path in blocks.rglob("*.parquet")}
    assert {path: after[path] for path in before} == before
    assert len(after) == 6


def test_a_broken_recipe_hides_nothing_and_mended_only_its_stack_runs(study: Checkout) -> None:
    study.append("containers/hpc/Dockerfile", "\nRUN echo the recipe is broken here >&2; exit 7\n")
    broken = study.snakemake(*STUDY)
    said = broken.stdout + broken.stderr
    assert broken.returncode != 0
    assert "the recipe is broken here" in (study.path / "results/small/report.html").read_text()
    status = json.loads((study.path / "results/software/hpc/image.json").read_text())
    assert status["status"] == "failed"
    runs = rows(study, "runs")
    of_hpc = [run for run in runs if run["cell"] == "startup" and run["runtime"] != "host"]
    assert {run["status"] for run in of_hpc} == {"failed"}
    assert all("the recipe is broken here" in "; ".join(run["reasons"]) for run in of_hpc)  # type: ignore[arg-type]
    assert {run["status"] for run in runs if run["cell"] == TRAIN} == {"ok"}
    assert "startup" in said

    dockerfile = study.path / "containers/hpc/Dockerfile"
    dockerfile.write_text((ROOT / "containers/hpc/Dockerfile").read_text())
    would = study.would_run(*STUDY)
    assert (would["build_image"], would["extract_rootfs"], would["measure_block"]) == (1, 1, 2)
    assert study.snakemake(*STUDY).returncode == 0
    assert {run["status"] for run in rows(study, "runs")} == {"ok"}


def test_a_spoilt_block_is_named_with_the_remedy_and_measured_again(study: Checkout) -> None:
    block = study.path / "results/small/blocks/startup/1.parquet"
    block.write_bytes(b"PAR1 spoilt")
    refused = study.snakemake(*STUDY)
    assert refused.returncode != 0
    assert "blocks/startup/1.parquet: not a readable Parquet file" in refused.stdout + refused.stderr
    block.unlink()
    assert study.would_run(*STUDY)["measure_block"] == 1
    assert study.snakemake(*STUDY).returncode == 0
    records.read(block, records.BLOCK)


def test_snakemakes_own_report_works(study: Checkout) -> None:
    made = study.snakemake(*STUDY, "--report", "snakemake-report.html")
    assert made.returncode == 0, made.stderr
    page = (study.path / "snakemake-report.html").read_text()
    assert "overhead.svg" in page


def test_nothing_is_left_running_or_mounted(studied: Checkout) -> None:
    import docker

    client = docker.from_env()
    try:
        assert client.containers.list(all=True, filters={"label": "tare.study=small"}) == []
    finally:
        client.close()
    assert str(studied.path) not in Path("/proc/mounts").read_text()
    assert list((studied.path / "results/small/scratch").iterdir()) == []


def test_two_versions_of_one_stack_stand_side_by_side(tmp_path: Path) -> None:
    """Study X's claim of coexistence: two locks of one recipe, two images, both measured in one study."""
    checkout = copy_checkout(tmp_path / "tare", own_cache=False)
    lock = (checkout.path / "envs/hpc.debs.lock").read_text()
    for kind in (".lock.txt", ".debs.in", ".in"):
        shutil.copyfile(checkout.path / f"envs/hpc{kind}", checkout.path / f"envs/hpc-bare{kind}")
    bare = [line for line in lock.splitlines(keepends=True) if not line.startswith("hpcc ")]
    (checkout.path / "envs/hpc-bare.debs.lock").write_text("".join(bare))
    (checkout.path / "versions.yaml").write_text(
        "study: versions\nblocks: 2\nruntimes: [docker]\ncomparisons: []\n"
        "stacks: {hpc-bare: {recipe: hpc, lock: hpc-bare}}\n"
        "cells: [{workload: startup}, {workload: startup, stack: hpc-bare}]\n"
    )
    ran = checkout.snakemake("--configfile", "versions.yaml", timeout=600)
    assert ran.returncode == 0, ran.stderr[-4000:]
    runs = pq.read_table(checkout.path / "results/versions/tables/runs.parquet").to_pylist()
    assert {run["status"] for run in runs} == {"ok"}
    of_cell = {
        cell: {run["image_digest"] for run in runs if run["cell"] == cell}
        for cell in ("startup", "startup+stack=hpc-bare")
    }
    assert all(len(digests) == 1 for digests in of_cell.values())
    assert of_cell["startup"] != of_cell["startup+stack=hpc-bare"]
    remove_images(of_cell["startup+stack=hpc-bare"])


def remove_images(digests: set[str]) -> None:
    """Remove what only a test built: the image and its archive in the machine's cache."""
    import docker

    client = docker.from_env()
    try:
        for digest in digests:
            hexdigest = digest.removeprefix("sha256:")
            client.images.remove(f"tare/hpc-bare:{hexdigest[:12]}", force=True)
            for path in (cache_dir() / "archives").glob(f"{hexdigest}*"):
                path.unlink()
    finally:
        client.close()
