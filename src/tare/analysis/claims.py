"""Claims of published studies that this study's cells speak to: what they say, what was measured, how it stands.

X: Xu, Shi, Chu, arXiv 1711.03386 (2017). Only claims with data of the same kind appear; nothing is said of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tare.analysis import units, verdict
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData, label
from tare.analysis.verdict import EQUIVALENT, FASTER, INCONCLUSIVE, NOT_COMPARABLE, SLOWER

SUPPORTED, CONTRADICTED, OPEN = "supported here", "contradicted here", "open"
#: metrics of processor-bound kernels; HPCG, the other benchmark of X1, is a workload of its own
_COMPUTE = ("hpl_flops", "hpcg_flops")


@dataclass(frozen=True)
class Claim:
    """A published claim, in our own words, with the rows that speak to it and the rule that judges them."""

    id: str
    text: str
    speaks: Callable[[Row], bool]
    judge: Callable[[Sequence[Row]], str]


@dataclass(frozen=True)
class Finding:
    """One row of the claims table."""

    id: str
    claim: str
    measured: str
    verdict: str


def _mostly_equivalent(rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    if 2 * counts[EQUIVALENT] > len(rows):
        return SUPPORTED
    return CONTRADICTED if 2 * (counts[SLOWER] + counts[FASTER]) > len(rows) else OPEN


def _never_slower(rows: Sequence[Row]) -> str:
    verdicts = {row["verdict"] for row in rows}
    if SLOWER in verdicts:
        return CONTRADICTED
    return OPEN if INCONCLUSIVE in verdicts else SUPPORTED


CLAIMS = (
    Claim(
        "X1",
        "processor-bound benchmarks (HPL, HPCG) run in a container as on the host, most within 5 %",
        lambda row: row["metric"] in _COMPUTE,
        _mostly_equivalent,
    ),
    Claim(
        "X7",
        "training with every tool is in a container as good as on the host or better",
        lambda row: row["workload"].startswith("train-"),
        _never_slower,
    ),
)


def findings(data: StudyData) -> list[Finding]:
    """Return the claims that comparable docker rows of this study speak to, in the order of ``CLAIMS``."""
    found = []
    for claim in CLAIMS:
        rows, pair = _rows(data, claim)
        if rows:
            found.append(Finding(claim.id, claim.text, f"{pair}: {_measured(rows)}", claim.judge(rows)))
    return found


def _rows(data: StudyData, claim: Claim) -> tuple[list[Row], str]:
    """Return the comparable rows against the host; only where there are none, those against the chroot."""
    for reference in ("host", "chroot"):
        rows = [
            row
            for row in data.comparisons
            if (row["treatment"], row["reference"]) == ("docker", reference)
            and row["verdict"] != NOT_COMPARABLE
            and claim.speaks(row)
        ]
        if rows:
            return rows, f"docker ÷ {reference} ({verdict.treatment_label('docker', reference)})"
    return [], ""


def _measured(rows: Sequence[Row]) -> str:
    """Return verdict and interval of every row; the ratio only where there is a verdict on it."""
    parts = []
    for row in rows:
        ratio = "" if row["verdict"] == INCONCLUSIVE else f" {units.percent(row['ratio'])}"
        interval = units.interval(row["ci_low"], row["ci_high"])
        parts.append(f"{row['cell']} {label(row)}: {row['verdict']}{ratio} {interval}")
    return "; ".join(parts)
