"""The ladder of one metric as a waterfall: where each step starts and ends, and what the whole ladder costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tare.analysis import equality, verdict
from tare.analysis.contrasts import INTERACTION, LADDER, STAR, pair_evidence
from tare.analysis.pairing import Row
from tare.analysis.statistics import Estimate, estimate
from tare.analysis.study_data import StudyData, label, metric, most_moved
from tare.config import Cell
from tare.variants import Contrast


@dataclass(frozen=True)
class Step:
    """One step: its row, and where its bar begins, in log cost against the first rung of the sum."""

    row: Row
    start: float

    @property
    def comparable(self) -> bool:
        """Whether the step has a number."""
        return bool(self.row["verdict"] != verdict.NOT_COMPARABLE)

    def leads_to(self, row: Row) -> bool:
        """Whether the sum goes on with ``row``: this step has a number, and that one's reference is its runtime."""
        return self.comparable and bool(self.row["treatment"] == row["reference"])

    @property
    def end(self) -> float:
        """Where its bar ends: at the start where there is no number."""
        return self.start + (math.log(self.row["ratio"]) if self.comparable else 0.0)


@dataclass(frozen=True)
class Waterfall:
    """One metric of one cell. ``first``, ``last``: the rungs that ``total`` compares, measured, not added up."""

    machine: str
    cell: Cell
    metric: str
    steps: tuple[Step, ...]
    first: str
    last: str
    total: Row | None
    star: tuple[Row, ...]
    interaction: Row | None


def waterfalls(data: StudyData, most: int | None = None) -> list[Waterfall]:
    """Return the waterfalls of the study; of each cell all metrics or ``most``, those with the largest steps."""
    found = []
    for machine, cell in data.places():
        groups = data.attributed_at(machine, cell.id, (LADDER, STAR, INTERACTION))
        found += [_waterfall(data, machine, cell, rows) for rows in most_moved(groups, most)]
    return found


def _waterfall(data: StudyData, machine: str, cell: Cell, rows: Sequence[Row]) -> Waterfall:
    steps = _steps([row for row in rows if row["contrast"] == LADDER])
    whole = _unbroken(steps)
    first, last = (whole[0].row["reference"], whole[-1].row["treatment"]) if whole else ("", "")
    return Waterfall(
        machine,
        cell,
        label(rows[0]),
        steps,
        first,
        last,
        _total(data, machine, cell, rows[0], first, last) if whole else None,
        tuple(row for row in rows if row["contrast"] == STAR),
        next((row for row in rows if row["contrast"] == INTERACTION), None),
    )


def _steps(ladder: Sequence[Row]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for row in ladder:
        before = steps[-1] if steps else None
        steps.append(Step(row, before.end if before and before.leads_to(row) else 0.0))
    return tuple(steps)


def _unbroken(steps: Sequence[Step]) -> list[Step]:
    """Return the last steps that follow each other without a gap: only these add up to a total."""
    found: list[Step] = []
    for step in steps:
        if found and not found[-1].leads_to(step.row):
            found = []
        found = [*found, step] if step.comparable else []
    return found


def _total(data: StudyData, machine: str, cell: Cell, row: Row, first: str, last: str) -> Row | None:
    """Return what the ladder costs from ``first`` to ``last`` as a row without verdict, or None where nothing is known.

    It is taken block by block like every pair, so it need not be the product of the steps when blocks are missing.
    """
    pair, of_cell = Contrast(LADDER, "total", last, first), data.by_place[(machine, cell.id)]
    evidence = pair_evidence(data.study, machine, cell, metric(row), pair, of_cell, data.values)
    if not verdict.comparable(equality.judge(evidence).status):
        return None
    found: Estimate = estimate(evidence.log_ratios, data.study.margin)
    numbers = {"ratio": found.ratio, "ci_low": found.ci_low, "ci_high": found.ci_high}
    return {**row, **numbers, "level": "total", "treatment": last, "reference": first, "verdict": None}
