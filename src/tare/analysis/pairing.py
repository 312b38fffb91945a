"""Two sides of a block → its cost ratio, or the reason why there is none; and which attempt of a block counts.

Which attempt of a block counts is decided by its `disturbed` flags alone, never by a ratio.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from tare.config import Cell
from tare.workloads.declaration import Metric

Row = dict[str, Any]
#: run_id → its value of one metric
Values = Mapping[tuple[str, str, str], float]
CONTROL = "control"
NO_REASON = "no reason recorded"


@dataclass(frozen=True)
class BlockRatio:
    """One attempt of one block for one pair: the log cost ratio, or ``reason`` why there is none."""

    block: int
    attempt: int
    counts: bool
    disturbed: bool
    log_ratio: float | None
    reason: str | None
    runs: tuple[Row | None, Row | None]  # reference, treatment


@dataclass(frozen=True)
class Evidence:
    """All that one comparison of one metric rests on, attempts that do not count included.

    ``bases``: the runtimes that reference and treatment are made from. ``parts``: what an interaction is made of.
    """

    machine_id: str
    cell: Cell
    metric: Metric
    contrast: str  # as in the table, or ``control``
    level: str | None
    treatment: str  # a runtime, or ``control``
    reference: str
    bases: tuple[str, str]
    ratios: tuple[BlockRatio, ...]
    parts: tuple[Evidence, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies it among the comparisons of a study; the same as ``study_data.row_key`` of its row."""
        where = (self.machine_id, self.cell.id, self.metric.phase, self.metric.name)
        return (*where, self.contrast, self.treatment, self.reference)

    @property
    def usable(self) -> tuple[BlockRatio, ...]:
        """The blocks that enter the statistics, in order."""
        return tuple(one for one in self.ratios if one.counts and one.log_ratio is not None)

    @property
    def unusable(self) -> tuple[BlockRatio, ...]:
        """The counting attempts that give no number, with their reasons."""
        return tuple(one for one in self.ratios if one.counts and one.log_ratio is None)

    @property
    def log_ratios(self) -> list[float]:
        """The log cost ratios of the usable blocks."""
        return [one.log_ratio for one in self.usable if one.log_ratio is not None]

    @property
    def disturbed_blocks(self) -> list[int]:
        """The usable blocks of which every attempt was disturbed: kept, with a warning."""
        return [one.block for one in self.usable if one.disturbed]


@dataclass(frozen=True)
class Attempt:
    """One attempt of one block: its runs by (runtime, role)."""

    machine_id: str
    cell: str
    block: int
    attempt: int
    runs: Mapping[tuple[str, str], Row]

    @property
    def disturbed(self) -> bool:
        """True when any run of the attempt carries a `disturbed` flag."""
        return any(is_disturbed(run) for run in self.runs.values())


def is_disturbed(run: Row) -> bool:
    """Return whether a run was flagged `disturbed` (the flag's text starts with that word)."""
    return any(flag.startswith("disturbed") for flag in run["flags"] or ())


def reason(run: Row) -> str:
    """Return why a run gave no number, as one text."""
    return "; ".join(run["reasons"] or ()) or NO_REASON


def attempts(runs: Iterable[Row]) -> list[tuple[Attempt, bool]]:
    """Return every attempt with whether it counts: the first undisturbed one of its block, else the last."""
    grouped: dict[tuple[str, str, int], dict[int, dict[tuple[str, str], Row]]] = defaultdict(dict)
    for run in runs:
        block = grouped[(str(run["machine_id"]), run["cell"], run["block"])]
        block.setdefault(run["attempt"], {})[(run["runtime"], run["role"])] = run
    result = []
    for (machine_id, cell, block_number), by_attempt in sorted(grouped.items()):
        ordered = [
            Attempt(machine_id, cell, block_number, number, by_attempt[number])
            for number in sorted(by_attempt)
        ]
        chosen = next((one for one in ordered if not one.disturbed), ordered[-1])
        result += [(one, one is chosen) for one in ordered]
    return result


def summaries(samples: pa.Table) -> dict[tuple[str, str, str], float]:
    """Return (run_id, metric, phase) → median of the run's samples; a NaN among them makes the summary NaN."""
    frame = samples.select(["run_id", "metric", "phase", "value"]).to_pandas()
    frame["value"] = pd.to_numeric(frame["value"]).astype(float)
    if frame.empty:
        return {}
    medians = frame.groupby(["run_id", "metric", "phase"])["value"].agg(
        lambda values: values.median(skipna=False)
    )
    return {(str(r), str(m), str(p)): float(v) for (r, m, p), v in medians.items()}


def block_ratios(
    of_cell: Sequence[tuple[Attempt, bool]], metric: Metric, treatment: str, reference: str, values: Values
) -> tuple[BlockRatio, ...]:
    """Return the log cost ratio of every attempt of one cell, treatment ÷ reference; see ``attempts``."""
    slot = (reference, CONTROL) if treatment == CONTROL else (treatment, "measure")
    result = []
    for attempt, counts in of_cell:
        pair = (attempt.runs.get((reference, "measure")), attempt.runs.get(slot))
        found = [_value(run, metric, values) for run in pair]
        numbers = [one for one in found if isinstance(one, float)]
        log_ratio = None
        if len(numbers) == 2:
            log_ratio = math.log(numbers[1]) - math.log(numbers[0])
            log_ratio = log_ratio if metric.cost else -log_ratio
        labels = (reference, f"{reference} (control)" if treatment == CONTROL else treatment)
        reasons = [
            f"{label}: {one}" for label, one in zip(labels, found, strict=True) if isinstance(one, str)
        ]
        result.append(
            BlockRatio(
                attempt.block,
                attempt.attempt,
                counts,
                attempt.disturbed,
                log_ratio,
                "; ".join(reasons) or None,
                pair,
            )
        )
    return tuple(result)


def _value(run: Row | None, metric: Metric, values: Values) -> float | str:
    """Return the run's summary of ``metric``, or the reason why it has none."""
    if run is None:
        return "no run in this block"
    if run["status"] != "ok":
        return f"{run['status']} ({reason(run)})"
    value = values.get((run["run_id"], metric.name, metric.phase))
    if value is None:
        return f"no sample of {metric.name} in phase {metric.phase}"
    if not (math.isfinite(value) and value > 0):
        return f"{metric.name} is {value!r}, not a positive number"
    return value
