"""Only what is invalid runs again: Snakemake is asked after each kind of change to a finished study."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from checkouts import Checkout

CELLS, OF_HPC, BLOCKS = 10, 8, 5
MEASURED = CELLS * BLOCKS
TABLES = {"collect_tables": 1, "compare_runtimes": 1}
FIGURES = {
    f"plot_{name}": 1
    for name in ("overhead", "blocks", "epochs", "startup", "breakdown", "ladder", "options")
}
REPORT = {"write_report": 1, "verify_study": 1, "all": 1}
ANALYSIS = TABLES | FIGURES | REPORT
STACK = {"build_image": 1, "extract_rootfs": 1, "measure_block": 2 * BLOCKS}


@pytest.fixture(scope="session")
def finished(make_checkout: Callable[[], Checkout]) -> Checkout:
    """A checkout whose every output exists and is known to Snakemake as up to date; nothing was really run."""
    checkout = make_checkout()
    summary = checkout.snakemake("--summary")
    assert summary.returncode == 0, summary.stderr
    outputs = [line.split("\t")[0] for line in summary.stdout.splitlines() if line.startswith("results/")]
    assert len(outputs) > 40
    for output in outputs:
        path = checkout.path / output
        if path.name == "files":
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"content of {output}\n")
    touched = checkout.snakemake("--touch", "--forceall")
    assert touched.returncode == 0, touched.stderr
    return checkout


@pytest.fixture
def study(finished: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the finished study to change, times and Snakemake's memory included."""
    shutil.copytree(finished.path, tmp_path / "tare", symlinks=True)
    return Checkout(tmp_path / "tare")


def append(*names: str, text: str = "\n\nCHANGED = 1\n") -> Callable[[Checkout], None]:
    def change(study: Checkout) -> None:
        for name in names:
            study.append(name, text)

    return change


def replace(name: str, old: str, new: str) -> Callable[[Checkout], None]:
    return lambda study: study.replace(name, old, new)


def delete(*names: str) -> Callable[[Checkout], None]:
    def change(study: Checkout) -> None:
        for name in names:
            (study.path / name).unlink()

    return change


def touch(study: Checkout) -> None:
    """New times, same contents, as a fresh copy or another branch and back leaves them."""
    for folder in ("src", "envs", "containers", "config"):
        for path in (study.path / folder).rglob("*"):
            if path.is_file():
                os.utime(path)


CHANGES: dict[str, tuple[Callable[[Checkout], None], dict[str, int]]] = {
    "nothing": (lambda _: None, {}),
    "only times": (touch, {}),
    "a figure's script": (append("scripts/plot_overhead.py"), {"plot_overhead": 1} | REPORT),
    "a figure's module": (append("src/tare/analysis/figures/startup.py"), {"plot_startup": 1} | REPORT),
    "the report's template": (append("src/tare/analysis/templates/report.css", text="\n/* x */\n"), REPORT),
    "the statistics": (append("src/tare/analysis/statistics.py"), {"compare_runtimes": 1} | FIGURES | REPORT),
    "more blocks": (
        replace("config/config.yaml", "blocks: 5", "blocks: 7"),
        {"measure_block": 2 * CELLS} | ANALYSIS,
    ),
    "another margin": (
        replace("config/config.yaml", "margin: 0.05", "margin: 0.1"),
        {"compare_runtimes": 1} | FIGURES | REPORT,
    ),
    "torch's wheels": (
        append("envs/torch.lock.txt", text="\n# another wish\n"),
        {"fetch_wheels": 1, "create_venv": 1} | STACK | ANALYSIS,
    ),
    "torch's packages": (
        append("envs/torch.debs.lock", text="\n# another wish\n"),
        {"fetch_debs": 1, "create_venv": 1} | STACK | ANALYSIS,
    ),
    "torch's Dockerfile": (append("containers/torch/Dockerfile", text="\n# comment\n"), STACK | ANALYSIS),
    "the worker": (
        append("src/tare/worker/loop.py"),
        {"build_worker": 1, "measure_block": MEASURED} | ANALYSIS,
    ),
    "an adapter": (
        append("src/tare/workloads/startup.py"),
        {"build_worker": 1, "measure_block": MEASURED} | ANALYSIS,
    ),
    "a native program": (
        append("src/tare/native/syscall/main.c", text="/* x */\n"),
        {"build_native": 1, "measure_block": BLOCKS} | ANALYSIS,
    ),
    "what native programs share": (
        append("src/tare/native/common/json.c", text="/* x */\n"),
        {"build_native": 5, "measure_block": 5 * BLOCKS} | ANALYSIS,
    ),
    "how runs are started": (append("src/tare/runtimes/process.py"), {"measure_block": MEASURED} | ANALYSIS),
    "another seed": (
        replace("config/config.yaml", "seed: 2026", "seed: 1926"),
        {"measure_block": MEASURED} | ANALYSIS,
    ),
    "one cell's factor": (
        replace(
            "config/config.yaml",
            "workload: train-torch-alexnet",
            "workload: train-torch-alexnet\n    factors: {batch: 128}",
        ),
        {"measure_block": BLOCKS} | ANALYSIS,
    ),
    "another image under the same tag": (
        append("results/software/hpc/image.json", text="another digest"),
        {"extract_rootfs": 1, "measure_block": OF_HPC * BLOCKS} | ANALYSIS,
    ),
    "a block deleted": (delete("results/quick/blocks/hpcc/3.parquet"), {"measure_block": 1} | ANALYSIS),
    "a table deleted": (
        delete("results/quick/tables/comparisons.parquet"),
        {"compare_runtimes": 1} | FIGURES | REPORT,
    ),
    "the report deleted": (delete("results/quick/report.html"), REPORT),
    "words and linters": (append("README.md", "pyproject.toml", text="\n# words\n"), {}),
    "how software is fetched": (append("src/tare/software/apt.py", "src/tare/software/image.py"), {}),
    "the progress line": (append("src/tare/progress.py", "scripts/measure_block.py"), {}),
    "comments": (
        append(
            *(
                "Snakefile",
                "rules/measure.smk",
                "rules/common.smk",
                "config/config.yaml",
                "profiles/default/config.yaml",
            ),
            *(
                "src/tare/measure.py",
                "src/tare/runtimes/host.py",
                "src/tare/order.py",
                "scripts/measure_block.py",
            ),
            text="\n# only a comment\n",
        ),
        {},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_what_is_invalid_runs_again(study: Checkout, change: str) -> None:
    apply, expected = CHANGES[change]
    apply(study)
    assert study.would_run() == expected


def test_another_study_leaves_this_one_alone(study: Checkout) -> None:
    preset = "config/presets/isolation.yaml"
    asked = study.snakemake("--dry-run", "--configfile", preset)
    assert "results/quick/" not in asked.stdout + asked.stderr
    jobs = study.would_run("--configfile", preset)
    assert jobs["measure_block"] == CELLS * 8
    assert not {"build_image", "build_worker", "prepare_data", "create_venv"} & set(jobs)
    assert study.would_run() == {}
