"""Evidence → the table ``comparisons``: ratio, interval, corrected p values, verdict, and the control beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tare import records
from tare.analysis import equality
from tare.analysis.contrasts import INTERACTION, gather
from tare.analysis.pairing import CONTROL, Evidence
from tare.analysis.statistics import Estimate, blocks_needed, corrected, estimate
from tare.analysis.verdict import INCONCLUSIVE, NOT_COMPARABLE, comparable, decide
from tare.config import Study


@dataclass(frozen=True)
class Comparison:
    """One row of the table with what it rests on; ``estimate`` is None below two usable blocks."""

    evidence: Evidence
    estimate: Estimate | None
    row: dict[str, Any]


def compare(study: Study, runs: pa.Table, samples: pa.Table) -> list[Comparison]:
    """Return all comparisons of the study in its order; p values are corrected over all of them together.

    A pair that stands in two contrasts (say, a step of the ladder that is also compared) is one hypothesis: it is
    tested once, and both rows show the same.
    """
    evidence = gather(study, runs, samples)
    noise = {
        (one.machine_id, one.cell.id, one.metric): _estimate(one, study.margin)
        for one in evidence
        if one.treatment == CONTROL
    }
    pairs = [one for one in evidence if one.treatment != CONTROL]
    estimates = [_estimate(one, study.margin) for one in pairs]
    equalities = [equality.judge(one) for one in pairs]
    # a pair that cannot be compared is not tested, and does not burden the correction of the others
    tested = {
        hypothesis(one): found
        for one, found, same in reversed(list(zip(pairs, estimates, equalities, strict=True)))
        if found and comparable(same.status)
    }
    p_equivalence = _corrected({key: one.p_equivalence for key, one in tested.items()})
    p_difference = _corrected({key: one.p_difference for key, one in tested.items()})
    result = []
    for one, found, same in zip(pairs, estimates, equalities, strict=True):
        key = hypothesis(one)
        p_values = p_equivalence.get(key), p_difference.get(key)
        row = _row(one, study, same) | _numbers(found, study.margin, *p_values, same.status)
        row |= _noise(noise.get((one.machine_id, one.cell.id, one.metric)))
        result.append(Comparison(one, found, row))
    return result


def as_table(study: Study, comparisons: Sequence[Comparison]) -> pa.Table:
    """Return the comparisons as the table of ``records.COMPARISONS``."""
    return records.table([one.row | {"study": study.study} for one in comparisons], records.COMPARISONS)


def hypothesis(evidence: Evidence) -> tuple[str, ...]:
    """Return what is tested, whichever contrast asks and whichever side is called the reference."""
    sides = sorted((evidence.treatment, evidence.reference))
    kind = INTERACTION if evidence.contrast == INTERACTION else "pair"
    return (*evidence.key[:4], kind, *sides)


def _corrected(p_values: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float | None]:
    return dict(zip(p_values, corrected(list(p_values.values())), strict=True))


def _estimate(evidence: Evidence, margin: float) -> Estimate | None:
    log_ratios = evidence.log_ratios
    return estimate(log_ratios, margin) if len(log_ratios) >= 2 else None


def _row(evidence: Evidence, study: Study, same: equality.Equality) -> dict[str, Any]:
    cell, metric = evidence.cell, evidence.metric
    return {
        "machine_id": evidence.machine_id,
        "cell": cell.id,
        "workload": cell.workload,
        "stack": cell.stack,
        "factors": _factors(evidence),
        "phase": metric.phase,
        "metric": metric.name,
        "unit": metric.unit,
        "contrast": evidence.contrast,
        "level": evidence.level,
        "reference": evidence.reference,
        "treatment": evidence.treatment,
        "blocks": len(evidence.usable),
        "margin": study.margin,
        "parity": same.status,
        "parity_fields": list(same.fields),
    }


def _factors(evidence: Evidence) -> list[tuple[str, str]]:
    """Return the factors as the runs recorded them: one that a later Tare adds is no fact of an older measurement."""
    runs = (run for one in evidence.ratios for run in one.runs if run is not None)
    recorded = next(runs, None)
    return sorted(
        recorded["factors"] if recorded else [(k, str(v)) for k, v in evidence.cell.factors.items()]
    )


def _numbers(
    found: Estimate | None, margin: float, p_equal: float | None, p_differ: float | None, parity: str
) -> dict[str, Any]:
    verdict, needed = NOT_COMPARABLE, None
    if found and p_equal is not None and p_differ is not None:
        verdict = decide(found.ci_low, found.ci_high, margin, p_equal, p_differ, parity)
        if verdict == INCONCLUSIVE:
            needed = blocks_needed(found.log_ratio, found.log_sd, margin, at_least=found.blocks)
    return {
        "ratio": found.ratio if found else None,
        "ci_low": found.ci_low if found else None,
        "ci_high": found.ci_high if found else None,
        "p_equivalence": p_equal,
        "p_difference": p_differ,
        "verdict": verdict,
        "blocks_needed": needed,
    }


def _noise(noise: Estimate | None) -> dict[str, Any]:
    return {
        "noise_ratio": noise.ratio if noise else None,
        "noise_ci_low": noise.ci_low if noise else None,
        "noise_ci_high": noise.ci_high if noise else None,
    }
