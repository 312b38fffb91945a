"""Show the reference study that comes with the checkout: its summary here, its report as a path (`make demo`).

Standard library only, Python 3.9: needs no set-up, no Docker and no network.
"""

import json
import sys
from pathlib import Path

REFERENCE = Path(__file__).resolve().parent.parent / "results" / "reference"


def provenance(folder: Path) -> str:
    """Return one line that says where and when the study was measured, from ``machine.json`` beside it."""
    try:
        machine = json.loads((folder / "machine.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "measured on one machine, perhaps not like yours; the report names machine and date"
    facts = ", ".join(str(machine[key]) for key in ("cpu", "kernel", "engine") if machine.get(key))
    return f"measured on {machine.get('date', 'an unknown date')}: {facts}"


def main(folder: Path = REFERENCE) -> int:
    """Print the summary and the report's path; returns the exit status, 1 when the study is not there."""
    summary, report = folder / "summary.md", folder / "report.html"
    missing = [path.name for path in (summary, report) if not path.is_file()]
    if missing:
        print(
            f"The reference study is not in this checkout: {folder} lacks {', '.join(missing)}. "
            "Restore it with `git checkout results/reference`, or measure your own with `make study`.",
            file=sys.stderr,
        )
        return 1
    print(summary.read_text(encoding="utf-8").rstrip())
    print(f"\nReference study, {provenance(folder)}.")
    print(f"Report with figures: {report.as_uri()}")
    print("Your machine may differ: make doctor, then make study.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
