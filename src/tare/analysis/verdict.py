"""The verdict of one comparison: the order of the rules is the contract (design: parity, margin, side, else open)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.analysis.statistics import ALPHA

EQUIVALENT, SLOWER, FASTER, INCONCLUSIVE, NOT_COMPARABLE = (
    "equivalent",
    "slower",
    "faster",
    "inconclusive",
    "not comparable",
)


def decide(
    ci_low: float, ci_high: float, margin: float, p_equivalence: float, p_difference: float, parity: str
) -> str:
    """Return the verdict from the uncorrected 90 % interval and the p values corrected over the study.

    Parity that differs, or that nothing is known of, is never a verdict about a container.
    """
    if not comparable(parity):
        return NOT_COMPARABLE
    if 1 / (1 + margin) <= ci_low and ci_high <= 1 + margin and p_equivalence <= ALPHA:
        return EQUIVALENT
    if ci_low > 1 and p_difference <= ALPHA:
        return SLOWER
    if ci_high < 1 and p_difference <= ALPHA:
        return FASTER
    return INCONCLUSIVE


def comparable(parity: str) -> bool:
    """Return whether pairs of this parity are compared at all."""
    return parity in ("same", "userland")


def measurable(verdict: str, ci_low: float | None, ci_high: float | None) -> bool:
    """Return whether an equivalent pair still differs measurably: its interval lies wholly on one side of 1."""
    return verdict == EQUIVALENT and ci_low is not None and ci_high is not None and not ci_low <= 1 <= ci_high


def treatment_label(treatment: str, reference: str) -> str:
    """Return what differs between two runtimes by construction, e.g. ``isolation + userland`` for docker ÷ host.

    Variants are given by the runtime they are made from.
    """
    if treatment == reference:
        return "options of the runtime"
    sides = (treatment == "host", reference == "host")
    other = reference if sides[0] else treatment
    if any(sides):
        return "userland" if other.startswith("chroot") else "isolation + userland"
    kinds = {runtime.split("-")[0] for runtime in (treatment, reference)}
    return "isolation" if len(kinds) == 2 else "options of the runtime"


def within_noise(row: Mapping[str, Any]) -> bool:
    """Return whether chance could have made it: the interval contains 1 or lies within the control's own interval."""
    low, high = row["ci_low"], row["ci_high"]
    if low is None or high is None or low <= 1 <= high:
        return True
    noise_low, noise_high = row["noise_ci_low"], row["noise_ci_high"]
    return noise_low is not None and noise_high is not None and bool(noise_low <= low and high <= noise_high)


def only_corrected(row: Mapping[str, Any]) -> bool:
    """Return whether an open row's 90 % interval alone would decide: only the corrected p value (5 %) forbids it."""
    low, high, margin = row["ci_low"], row["ci_high"], row["margin"]
    if row["verdict"] != INCONCLUSIVE:
        return False
    return bool(not low <= 1 <= high or (1 / (1 + margin) <= low and high <= 1 + margin))
