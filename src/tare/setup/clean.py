"""Removing what the workflow made in this checkout: asks first, and refuses while a study runs or a mount is below."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tare.setup import workflow
from tare.setup.environment import SetupError
from tare.software.safe_delete import MountedBelowError, mounted_below, remove_tree

KEPT = "reference"
CACHES = (".snakemake", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")


def targets(checkout: Path) -> list[Path]:
    """Return what would be removed: all of results/ but the reference study, and the tools' folders."""
    results = sorted(path for path in (checkout / "results").glob("*") if path.name != KEPT)
    return [*results, *(checkout / name for name in CACHES if (checkout / name).exists())]


def clean(checkout: Path, arguments: Sequence[str]) -> None:
    """Remove ``targets`` after asking (``--yes``: without).

    Raises ``SetupError`` while a study may be running, and without an answer; ``MountedBelowError``, with nothing
    removed, when anything is mounted at or below one of them.
    """
    owner = workflow.living_owner(checkout) if workflow.locked(checkout) else None
    if owner:
        raise SetupError(f"a study is running in this folder ({owner}); end it first")
    found = targets(checkout)
    for path in found:
        mounted = mounted_below(path)
        if mounted:
            raise MountedBelowError(
                f"nothing is removed: {mounted[0]} is mounted; first: umount {mounted[0]}"
            )
    if not found:
        print("clean: nothing to remove")
        return
    print("\n".join(f"clean: {path}" for path in found), flush=True)
    if "--yes" not in arguments and not _confirmed():
        raise SetupError("nothing was removed; without a terminal: make clean ARGS=--yes")
    for path in found:
        remove_tree(path)


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        return False
    return input("Remove these, measured results included? [y/N] ").strip().lower() in ("y", "yes")
