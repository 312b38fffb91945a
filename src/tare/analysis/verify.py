"""The last word on a study: what failed, is invalid or missing. Skipped and disturbed runs are told, not refused."""

from __future__ import annotations

from tare.analysis import incidents, notes, units
from tare.analysis.study_data import StudyData

_REFUSED = ("failed", "invalid")


def problems(data: StudyData) -> list[str]:
    """Return one line for everything that keeps the study from being whole; empty when all is well.

    Only attempts that count matter: a run that failed in a disturbed attempt was measured again.
    """
    found = [f"missing: {cell}, {blocks}" for cell, blocks in missing(data)]
    counted = [run for one, counts in data.attempts if counts for run in one.runs.values()]
    for one in incidents.incidents(counted):
        if one.kind in _REFUSED:
            runs = units.count(one.runs, "run")
            found.append(
                f"{one.kind}: {one.cell} in {one.runtime}, {notes.block_list(one.blocks)} ({runs}): {one.reason}"
            )
    if counted and all(run["status"] == "skipped" for run in counted):
        found.append("nothing was measured: every run was skipped; the report lists the remedies")
    return found


def missing(data: StudyData) -> list[tuple[str, str]]:
    """Return (cell, its blocks that no run exists of, as text), in the order of the study."""
    by_cell: dict[str, list[int]] = {}
    for cell, block in data.missing:
        by_cell.setdefault(cell, []).append(block)
    return [(cell, notes.block_list(blocks)) for cell, blocks in by_cell.items()]


def message(data: StudyData, page: str) -> str | None:
    """Return the one message a failing study ends with, or None when it is whole."""
    found = problems(data)
    if not found:
        return None
    lines = "\n".join(f"  - {one}" for one in found)
    return (
        f"Study {data.study.study} is not whole:\n{lines}\n"
        f"The report shows everything that could be measured: {page}\n"
        "Mend the causes, then `make retry` measures only what failed."
    )
