"""Claims of published studies that this study's cells speak to: what they say, what was measured, how it stands.

X: Xu, Shi, Chu, arXiv 1711.03386 (2017). Only claims with data of the same kind appear; nothing is said of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tare.analysis import units, verdict
from tare.analysis.answer import tally
from tare.analysis.pairing import Row, reason
from tare.analysis.study_data import StudyData, label
from tare.analysis.verdict import EQUIVALENT, FASTER, INCONCLUSIVE, NOT_COMPARABLE, SLOWER

SUPPORTED, CONTRADICTED, OPEN = "supported here", "contradicted here", "open"
NOT_MEASURED = "not measured"
#: the metric of X1 inside hpcc, which also runs kernels that are no claim of X's
_HPL = "hpl_flops"
_SEQUENTIAL = ("io-cached-sequential", "io-direct-sequential", "fio-seqread", "io-write")
_RANDOM = ("io-cached-random", "io-direct-random", "fio-randread", "fio-randwrite", "io-latency")
#: more rows than this are counted, not listed
_MOST_LISTED = 6


@dataclass(frozen=True)
class Claim:
    """A published claim, in our own words, with the workloads that speak to it and the rule that judges them.

    ``only``: of those the one metric that does, by workload.
    """

    id: str
    text: str
    workload: Callable[[str], bool]
    judge: Callable[[Sequence[Row]], str]
    only: Mapping[str, str] = field(default_factory=dict)

    def speaks(self, row: Row) -> bool:
        """Return whether a comparison speaks to the claim."""
        return self.workload(row["workload"]) and row["metric"] == self.only.get(
            row["workload"], row["metric"]
        )


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


def _mostly_faster(rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    if 2 * counts[FASTER] > len(rows):
        return SUPPORTED
    return CONTRADICTED if 2 * (counts[SLOWER] + counts[EQUIVALENT]) > len(rows) else OPEN


CLAIMS = (
    Claim(
        "X1",
        "processor-bound benchmarks (HPL, HPCG) run in a container as on the host, most within 5 %",
        lambda name: name in ("hpcc", "hpl", "hpcg"),
        _mostly_equivalent,
        only={"hpcc": _HPL},
    ),
    Claim(
        "X2",
        "GPU kernels and copies run in a container as on the host",
        lambda name: name.startswith("gpu-"),
        _mostly_equivalent,
    ),
    Claim(
        "X3",
        "sequential file access is in a container as on the host",
        lambda name: name in _SEQUENTIAL,
        _mostly_equivalent,
    ),
    Claim(
        "X4",
        "random file access was better in the container (seen there on one of the drives)",
        lambda name: name in _RANDOM,
        _mostly_faster,
    ),
    Claim(
        "X7",
        "training with every tool is in a container as good as on the host or better",
        lambda name: name.startswith("train-"),
        _never_slower,
    ),
)


def findings(data: StudyData) -> list[Finding]:
    """Return the claims that comparable docker rows of this study speak to, in the order of ``CLAIMS``.

    A claim whose every run was skipped stands there with the reason; of one that no cell speaks to nothing is said.
    """
    found = []
    for claim in CLAIMS:
        rows, pair = _rows(data, claim)
        skipped = _skipped(data, claim)
        if rows:
            found.append(Finding(claim.id, claim.text, f"{pair}: {_measured(rows)}", claim.judge(rows)))
        elif skipped:
            found.append(Finding(claim.id, claim.text, f"no number, skipped: {skipped}", NOT_MEASURED))
    return found


def _skipped(data: StudyData, claim: Claim) -> str:
    """Return the most frequent reason when every run of the claim's workloads was skipped, else nothing."""
    runs = [run for run in data.runs if claim.workload(run["workload"])]
    if any(run["status"] != "skipped" for run in runs):
        return ""
    reasons = Counter(map(reason, runs))
    return max(reasons, key=lambda text: (reasons[text], text), default="")


def _rows(data: StudyData, claim: Claim) -> tuple[list[Row], str]:
    """Return the comparable rows against the host; only where there are none, those against the chroot."""
    for reference in ("host", "chroot"):
        rows = [
            row
            for row in data.compared_in("docker", reference)
            if row["verdict"] != NOT_COMPARABLE and claim.speaks(row)
        ]
        if rows:
            return rows, f"docker ÷ {reference} ({verdict.treatment_label('docker', reference)})"
    return [], ""


def _measured(rows: Sequence[Row]) -> str:
    """Return verdict and interval of every row, of many only their tally; the ratio only with a verdict on it."""
    if len(rows) > _MOST_LISTED:
        return tally(rows)
    parts = []
    for row in rows:
        ratio = "" if row["verdict"] == INCONCLUSIVE else f" {units.percent(row['ratio'])}"
        interval = units.interval(row["ci_low"], row["ci_high"])
        parts.append(f"{row['cell']} {label(row)}: {row['verdict']}{ratio} {interval}")
    return "; ".join(parts)
