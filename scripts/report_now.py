"""``make report``: a report of the blocks that are finished now, without Snakemake and also while it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml
from snakemake.utils import update_config

from tare.analysis import publish, terminal
from tare.config import ConfigError, Study, load
from tare.records import RecordError

ROOT = Path(__file__).resolve().parent.parent


def read_study(files: list[Path]) -> Study:
    """Return the study as Snakemake reads it: config/config.yaml, then the files given, later ones win."""
    merged: dict[str, Any] = {}
    for path in [ROOT / "config" / "config.yaml", *files]:
        try:
            update_config(merged, yaml.safe_load(path.read_text(encoding="utf-8")) or {})
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(f"{path}: not a readable config ({error}); give a YAML file") from None
    return load(merged)


def main() -> int:
    """Write results/<study>/partial/ and show its summary; 1 with one message when there is nothing to show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", "--configfile", dest="files", type=Path, nargs="+", default=[])
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the results")
    given = parser.parse_args()
    try:
        study = read_study(given.files)
        blocks = publish.finished_blocks(study, given.results)
        if not blocks:
            where = given.results / study.study / "blocks"
            raise RecordError(
                f"no finished block of study {study.study} in {where}; start it with: make study"
            )
        data = publish.from_blocks(study, blocks, partial=True)
        page = publish.publish(data, given.results / study.study / "partial")
    except (ConfigError, RecordError) as error:
        print(error, file=sys.stderr)
        return 1
    print(terminal.terminal(data, str(page)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
