"""What stands behind a verdict's word: how much it says, how many blocks would decide, why nothing is comparable."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tare.analysis import equality, units, verdict
from tare.analysis.contrasts import INTERACTION
from tare.analysis.pairing import Row
from tare.analysis.statistics import MOST_BLOCKS

#: more fields than this are counted, not listed
_MOST_FIELDS = 6
#: more blocks than this are no advice
WORTHWHILE_BLOCKS = 50
#: what the verdict on an interaction says: the ladder's total against the star's single effects
_ADDS_UP = {
    verdict.EQUIVALENT: "the single effects add up to the total",
    verdict.SLOWER: "the total is more than the single effects: they interact, or a step that the star lacks costs",
    verdict.FASTER: "the total is less than the single effects: they overlap",
}
_HASHES = re.compile(r"[0-9a-f]{16,} ≠ [0-9a-f]{16,}")


def explain(row: Row, details: Mapping[str, str]) -> str:
    """Return what stands behind the verdict's word: how much it says, blocks needed, or why not comparable."""
    if row["contrast"] == INTERACTION and row["verdict"] in _ADDS_UP:
        return _ADDS_UP[row["verdict"]]
    if verdict.measurable(row["verdict"], row["ci_low"], row["ci_high"]):
        return f"measurable: {units.percent(row['ratio'])}"
    if row["verdict"] in (verdict.SLOWER, verdict.FASTER):
        margin = units.margin(row["margin"])
        beyond = row["ci_low"] > 1 + row["margin"] or row["ci_high"] < 1 / (1 + row["margin"])
        return f"by more than the margin {margin}" if beyond else f"perhaps by less than the margin {margin}"
    if row["verdict"] == verdict.INCONCLUSIVE:
        return _unconfirmed(row) + blocks_advice(row["blocks_needed"])
    if row["verdict"] == verdict.NOT_COMPARABLE:
        return _not_comparable(row, details)
    return ""


def _unconfirmed(row: Row) -> str:
    """Return why an interval that shows something is no verdict: the p value must hold too, after correction."""
    if not verdict.only_corrected(row):
        return ""
    p = row["p_equivalence"] if row["ci_low"] <= 1 <= row["ci_high"] else row["p_difference"]
    return f"the interval alone would decide, but the corrected p is {units.probability(p)}; "


def blocks_advice(needed: int | None) -> str:
    """Return how many blocks would decide, or that more of them hardly will."""
    if needed is not None and needed <= WORTHWHILE_BLOCKS:
        return f"about {needed} blocks would decide"
    number = f"about {needed}" if needed is not None else f"over {MOST_BLOCKS}"
    return f"more blocks will hardly decide: the noise is too large ({number} needed)"


def advice(row: Row) -> str:
    """Return what would decide an open row in two or three words, nothing for a decided one."""
    needed = row["blocks_needed"]
    if row["verdict"] != verdict.INCONCLUSIVE:
        return ""
    return f"{needed} blocks" if needed is not None and needed <= WORTHWHILE_BLOCKS else "too noisy"


def _not_comparable(row: Row, details: Mapping[str, str]) -> str:
    fields = row["parity_fields"] or ()
    if equality.TOO_FEW_BLOCKS in fields:
        return f"{units.count(row['blocks'], 'usable block')}, 2 are needed"
    kind = "evidence missing" if row["parity"] == "unknown" else "different software or work"
    return f"{kind}: {_fields(fields, details)}" if fields else kind


def _fields(names: Sequence[str], details: Mapping[str, str]) -> str:
    """Return the fields with both values; of files the names alone, since two hashes tell nobody anything."""
    shown = [_field(name, details.get(name, "")) for name in names[:_MOST_FIELDS]]
    more = len(names) - _MOST_FIELDS
    return "; ".join([*shown, *([f"and {more} more (column parity_fields)"] if more > 0 else [])])


def _field(name: str, values: str) -> str:
    return name if not values or _HASHES.fullmatch(values) else f"{name} ({values})"
