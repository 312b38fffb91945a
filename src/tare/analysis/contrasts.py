"""Runs and samples → the evidence of every contrast of a study: pairs of runtimes, controls, interactions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from tare.analysis.pairing import (
    CONTROL,
    NO_REASON,
    Attempt,
    BlockRatio,
    Evidence,
    Values,
    attempts,
    block_ratios,
    summaries,
)
from tare.config import Cell, Study
from tare.variants import Contrast
from tare.workloads.declaration import Metric

RUNTIME, LADDER, STAR, OPTION, INTERACTION = "runtime", "ladder", "star", "option", "interaction"
Attempts = Sequence[tuple[Attempt, bool]]
#: machine_id, id of the cell
Place = tuple[str, str]


def gather(study: Study, runs: pa.Table, samples: pa.Table) -> list[Evidence]:
    """Return the evidence of every machine, cell, metric and contrast: pairs, interaction, then the control.

    The order is that of the study; machines never mix; a cell without any run on a machine has no evidence there.
    A metric that a side by its nature never has makes no comparison (``Metric.optional``).
    """
    return evidence(study, by_place(attempts(runs.to_pylist())), summaries(samples))


def by_place(found: Attempts) -> dict[Place, Attempts]:
    """Return the attempts (see ``attempts``) of every machine and cell, in their order."""
    places: dict[Place, list[tuple[Attempt, bool]]] = defaultdict(list)
    for attempt, counts in found:
        places[(attempt.machine_id, attempt.cell)].append((attempt, counts))
    return dict(places)


def evidence(study: Study, places: Mapping[Place, Attempts], values: Values) -> list[Evidence]:
    """Return the same as ``gather`` from attempts and summaries that are there already."""
    return [
        one
        for machine in sorted({machine for machine, _ in places})
        for cell in study.expand()
        if (machine, cell.id) in places
        for metric in cell.spec.metrics
        for one in _of_metric(study, machine, cell, metric, places[(machine, cell.id)], values)
    ]


def _of_metric(
    study: Study, machine: str, cell: Cell, metric: Metric, of_cell: Attempts, values: Values
) -> list[Evidence]:
    def measured(asked: Iterable[Contrast]) -> list[Evidence]:
        return [
            pair_evidence(study, machine, cell, metric, one, of_cell, values)
            for one in asked
            if not _lacking({one.treatment, one.reference}, metric, of_cell, values)
        ]

    contrasts, total = study.contrasts(cell), isolation_total(study, cell)
    pairs = measured(contrasts)
    star = [one for one in pairs if one.contrast == STAR]
    whole = len(star) == sum(one.kind == STAR for one in contrasts)
    sums = [interaction(one, star) for one in measured([total] if total and whole else [])]
    return [*pairs, *sums, *measured([Contrast(CONTROL, None, CONTROL, cell.control)])]


def pair_evidence(
    study: Study,
    machine: str,
    cell: Cell,
    metric: Metric,
    contrast: Contrast,
    of_cell: Attempts,
    values: Values,
) -> Evidence:
    """Return what one pair of runtimes (or a runtime and its control) rests on in one cell."""
    kind, level, treatment, reference = contrast
    other = reference if treatment == CONTROL else treatment
    return Evidence(
        machine,
        cell,
        metric,
        kind,
        level,
        treatment,
        reference,
        (study.base(reference), study.base(other)),
        block_ratios(of_cell, metric, treatment, reference, values),
    )


def _lacking(runtimes: set[str], metric: Metric, of_cell: Attempts, values: Values) -> bool:
    """Return whether one of ``runtimes`` by its nature has no such number: valid runs, and in none of them a sample.

    Without a valid run nothing is known of its nature, and the comparison stays, as one that failed.
    """
    if not metric.optional:
        return False
    all_runs = list(chain.from_iterable(attempt.runs.values() for attempt, _ in of_cell))
    for runtime in runtimes:
        ok = [run for run in all_runs if run["runtime"] == runtime and run["status"] == "ok"]
        if ok and not any((run["run_id"], metric.name, metric.phase) in values for run in ok):
            return True
    return False


def isolation_total(study: Study, cell: Cell) -> Contrast | None:
    """Return what the whole ladder above the userland costs, docker ÷ its first rung on the image's files.

    None without such a rung, without docker above it, or without a star to compare it with.
    """
    rungs = [name for name in study.ladder if name in cell.runtimes]
    first = next((name for name in rungs if study.base(name) != "host"), None)
    effects = sum(one.kind == STAR for one in study.contrasts(cell))
    if first is None or not effects or "docker" not in rungs[rungs.index(first) + 1 :]:
        return None
    noun = "single effect" if effects == 1 else "single effects"
    return Contrast(INTERACTION, f"total ÷ product of {effects} {noun}", "docker", first)


def interaction(total: Evidence, effects: Sequence[Evidence]) -> Evidence:
    """Return the evidence that parts add up: per block the total's ratio ÷ the product of the single effects' ratios.

    1 means that they do. Attempts are matched by block and attempt; one without a number in any part has none.
    """
    by_attempt = [{(one.block, one.attempt): one for one in part.ratios} for part in effects]
    ratios = tuple(
        _left_over(one, [part[(one.block, one.attempt)] for part in by_attempt]) for one in total.ratios
    )
    return Evidence(
        total.machine_id,
        total.cell,
        total.metric,
        total.contrast,
        total.level,
        total.treatment,
        total.reference,
        total.bases,
        ratios,
        parts=(total, *effects),
    )


def _left_over(total: BlockRatio, effects: Sequence[BlockRatio]) -> BlockRatio:
    logs = [one.log_ratio for one in effects if one.log_ratio is not None]
    whole = total.log_ratio
    known = whole is not None and len(logs) == len(effects)
    # each side's reason once, though docker stands in every part
    reasons = dict.fromkeys(
        reason for one in (total, *effects) if one.reason for reason in one.reason.split("; ")
    )
    return BlockRatio(
        total.block,
        total.attempt,
        total.counts,
        total.disturbed,
        whole - math.fsum(logs) if known and whole is not None else None,
        None if known else "; ".join(reasons) or NO_REASON,
        total.runs,
    )
