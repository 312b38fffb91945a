"""Finding failed results, so that `make retry` makes exactly those again and keeps every other number."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow.parquet as pq

#: status files of software and data, below results/
STATUS_FILES = ("software/*/*.json", "data/*/dataset.json")
FAILED_RUN = frozenset({"failed", "invalid"})


def status_files(results: Path, statuses: Collection[str]) -> list[Path]:
    """Return the status files of software and data whose status is among ``statuses``, or that cannot be read."""
    found = [path for pattern in STATUS_FILES for path in sorted(results.glob(pattern))]
    return [path for path in found if _status(path) in statuses or _status(path) is None]


def _status(path: Path) -> str | None:
    try:
        status = json.loads(path.read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(status)


def blocks(results: Path) -> list[Path]:
    """Return the block files, of every study, in whose last attempt a run failed or was invalid, and unreadable ones.

    A run that could not be made because its software failed has the status ``failed`` too; ``skipped`` runs, and
    failed ones that a further attempt made good, are no reason to measure again.
    """
    return [path for path in sorted(results.glob("*/blocks/*/*.parquet")) if _has_failed(path)]


def _has_failed(path: Path) -> bool:
    try:
        rows = pq.read_table(path, columns=["attempt", "status"]).to_pylist()
    except (OSError, ValueError):  # pyarrow's own errors are ValueErrors
        return True
    last = max((row["attempt"] for row in rows), default=None)
    return any(row["status"] in FAILED_RUN for row in rows if row["attempt"] == last)


def remove(paths: Iterable[Path]) -> int:
    """Delete these files, saying each; return how many there were."""
    count = 0
    for path in paths:
        print(f"retry: {path}")
        path.unlink()
        count += 1
    return count
