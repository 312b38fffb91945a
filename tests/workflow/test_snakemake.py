"""What Snakemake says and would do in a fresh checkout."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from checkouts import ROOT, Checkout

PRESETS = sorted((ROOT / "config/presets").glob("*.yaml"))
HOST = str(ROOT / "tests/data/studies/host.yaml")


def test_lint_is_silent(checkout: Checkout) -> None:
    linted = checkout.snakemake("--lint")
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "Congratulations, your workflow is in a good condition!" in linted.stdout + linted.stderr


def test_the_quick_study_is_what_a_fresh_checkout_would_run(checkout: Checkout) -> None:
    jobs = checkout.would_run()
    assert jobs["measure_block"] == 10 * 5
    assert jobs["build_image"] == jobs["extract_rootfs"] == jobs["create_venv"] == 2
    assert jobs["prepare_data"] == 2
    for once in ("build_base", "build_worker", "collect_tables", "write_report", "verify_study", "all"):
        assert jobs[once] == 1, once


@pytest.mark.parametrize("preset", PRESETS, ids=[preset.stem for preset in PRESETS])
def test_every_preset_runs_in_its_own_folder(checkout: Checkout, preset: Path) -> None:
    asked = checkout.snakemake("--dry-run", "--configfile", str(preset))
    assert asked.returncode == 0, asked.stderr
    assert f"results/{preset.stem}/report.html" in asked.stdout + asked.stderr
    assert "results/quick/" not in asked.stdout + asked.stderr


def test_target_rules_are_nouns_a_user_can_ask_for(checkout: Checkout) -> None:
    assert "measure_block" not in checkout.would_run("images")
    assert checkout.would_run("tables")["collect_tables"] == 1
    assert checkout.would_run("figures")["plot_overhead"] == 1


def test_a_study_without_docker_and_chroot_builds_no_image(checkout: Checkout) -> None:
    jobs = checkout.would_run("--configfile", HOST)
    assert jobs["measure_block"] == 2
    assert not {"build_image", "build_base", "extract_rootfs", "prepare_data"} & set(jobs)


@pytest.mark.parametrize("there", [False, True])
def test_gpu_cells_cost_nothing_where_there_is_no_gpu(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n" + ("echo NVIDIA L4, 550.1\n" if there else "exit 9\n"))
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    jobs = checkout.would_run("--configfile", str(ROOT / "config/presets/gpu.yaml"))
    assert ("build_base" in jobs) is there
    assert jobs["build_image"] == jobs["fetch_wheels"] == 1
    assert jobs["measure_block"] == 12 * 8


def test_a_bad_config_is_one_clear_error(checkout: Checkout) -> None:
    checkout.replace("config/config.yaml", "blocks: 5", "bloks: 5")
    refused = checkout.snakemake("--dry-run")
    said = refused.stdout + refused.stderr
    assert refused.returncode == 1
    assert "bloks: unknown key; did you mean 'blocks'?" in said
    assert "Traceback" not in said


def test_another_software_deployment_is_refused(checkout: Checkout) -> None:
    refused = checkout.snakemake("--dry-run", "--sdm", "conda")
    assert refused.returncode == 1
    assert "Tare makes the software it compares by itself" in refused.stdout + refused.stderr


def test_a_dry_run_leaves_no_trace_in_the_tree(checkout: Checkout) -> None:
    before = {path for path in checkout.path.rglob("*") if ".snakemake" not in path.parts}
    checkout.would_run()
    after = {path for path in checkout.path.rglob("*") if ".snakemake" not in path.parts}
    assert {path for path in after - before if "__pycache__" not in path.parts} == set()


def test_the_owner_of_the_lock_is_written_at_the_start(
    make_checkout: Callable[[], Checkout],
) -> None:
    checkout = make_checkout()
    ran = checkout.snakemake("--configfile", HOST, "--", "results/software/hpc/wheels.json")
    assert ran.returncode == 0, ran.stderr
    owner = json.loads((checkout.path / ".snakemake/tare-owner.json").read_text())
    assert set(owner) == {"host", "pid", "starttime"}
