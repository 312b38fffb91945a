"""Keeps finished studies as references: `python scripts/keep_reference.py <name> <study folder> [<preset> …]`.

The name is a folder below results/reference, or `.` for the one that `make demo` shows. Without arguments all kept
ones are drawn anew from their tables (after a change of figures or report).
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tare.analysis.figures import ladder, style  # noqa: E402 (runs without an installed package)
from tare.analysis.publish import publish  # noqa: E402
from tare.analysis.study_data import StudyData  # noqa: E402
from tare.config import Study  # noqa: E402

REFERENCE = ROOT / "results/reference"
TABLES = ("runs", "samples", "comparisons")
#: what the README shows of a kept study with a ladder: (workload, metric)
SHOWN = (
    ("syscall", "getpid"),
    ("syscall", "pipe round trip, one CPU"),
    ("files-small", "open, read, close"),
    ("memory", "page faults (base pages)"),
    ("train-torch-fcn5", "first epoch"),
    ("train-torch-fcn5", "steady training step"),
)


def load(folder: Path) -> StudyData:
    """Return the study kept in a folder: its config and its tables."""
    study = Study.model_validate_json((folder / "study.json").read_text(encoding="utf-8"))
    return StudyData.load(study, *(folder / f"tables/{table}.parquet" for table in TABLES))


def keep(study: Study, source: Path, target: Path) -> None:
    """Copy the tables of ``source`` and write down the study and the machine it was measured on."""
    (target / "tables").mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        shutil.copyfile(source / f"tables/{table}.parquet", target / f"tables/{table}.parquet")
    (target / "study.json").write_text(study.model_dump_json(indent=2) + "\n", encoding="utf-8")
    run = load(target).runs[0]
    node = json.loads(run["fingerprint"])["node"]
    machine = {
        "date": run["started_at"].date().isoformat(),
        "cpu": f"{node['cores']} cores of {node['cpu_model']}, {node['memory_class']}",
        "kernel": f"Linux {node['kernel']}",
        "engine": f"Docker {node['engine_version']}",
    }
    (target / "machine.json").write_text(json.dumps(machine, indent=2) + "\n", encoding="utf-8")


def draw(data: StudyData, folder: Path) -> None:
    """Write page, summary and figures of a kept study to ``folder``, and the README's figure of a ladder."""
    publish(data, folder, pngs=False)  # the page and the README show the SVGs
    if data.study.ladder:
        style.save(ladder.draw_some(data, SHOWN), folder / "figures/ladder-some.svg")


def kept() -> list[Path]:
    """Return the folders of all kept studies."""
    return sorted(path.parent for path in REFERENCE.rglob("study.json"))


def main() -> None:
    """Keep the study of the command line (name, folder, config files), if one is given; draw all kept ones."""
    if len(sys.argv) > 1:
        name, (source, *presets) = sys.argv[1], map(Path, sys.argv[2:])
        config: dict[str, object] = {}
        for path in (ROOT / "config/config.yaml", *presets):
            config |= yaml.safe_load(path.read_text(encoding="utf-8"))
        keep(Study.model_validate(config), source, REFERENCE / name)
    for folder in kept():
        draw(load(folder), folder)


if __name__ == "__main__":
    main()
