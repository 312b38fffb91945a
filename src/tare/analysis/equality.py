"""Did both sides of a comparison do the same work with the same software? Asks ``tare.parity``, block by block."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tare import parity
from tare.analysis.pairing import BlockRatio, Evidence, Row

STATUSES = ("same", "userland", "unknown", "different")  # from best to worst
#: stands in ``parity_fields`` when too few blocks are left to compare anything
TOO_FEW_BLOCKS = "blocks.usable"
NO_FINGERPRINT = "fingerprint"


@dataclass(frozen=True)
class Equality:
    """The worst status over the usable blocks, the fields that differ, and what differs in words."""

    status: str
    fields: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def fingerprint(text: str | None) -> Mapping[str, Any] | None:
    """Return the fingerprint of a run, or None where there is none that can be read."""
    try:
        parsed = json.loads(text or "")
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def judge(evidence: Evidence) -> Equality:
    """Return the parity of one comparison: every usable block's pair of runs, then the losses of all of them.

    An interaction is as comparable as the worst of its parts.
    """
    if len(evidence.usable) < 2:
        return Equality(
            "unknown", (TOO_FEW_BLOCKS,), {TOO_FEW_BLOCKS: f"{len(evidence.usable)} (2 are needed)"}
        )
    if evidence.parts:
        return _worst([judge(part) for part in evidence.parts])
    found = [_pair(one, *evidence.bases) for one in evidence.usable]
    if all(one.fields != (NO_FINGERPRINT,) for one in found):
        found.append(_losses(evidence.usable, *evidence.bases))
    return _worst(found)


def _worst(found: Sequence[Equality]) -> Equality:
    details: dict[str, str] = {}
    for one in found:
        for name, text in one.details.items():
            details.setdefault(name, text)
    worst = max((one.status for one in found), key=STATUSES.index)
    # of a pair that differs only those fields are named that make it differ
    fields = {name for one in found if one.status == worst for name in one.fields}
    warnings = tuple(dict.fromkeys(text for one in found for text in one.warnings))
    return Equality(worst, tuple(sorted(fields)), details, warnings)


def _pair(one: BlockRatio, reference: str, treatment: str) -> Equality:
    left, right = (run["fingerprint"] if run else None for run in one.runs)
    return _runs(left, right, reference, treatment)


@lru_cache(maxsize=4096)
def _runs(left: str | None, right: str | None, reference: str, treatment: str) -> Equality:
    """Return the parity of two runs by their fingerprints' texts: every metric of a cell asks of the same ones."""
    sides = fingerprint(left), fingerprint(right)
    if sides[0] is None or sides[1] is None:
        return Equality("unknown", (NO_FINGERPRINT,), {NO_FINGERPRINT: "not recorded or not readable"})
    return _plain(parity.compare(sides[0], sides[1], reference, treatment))


def _losses(blocks: Sequence[BlockRatio], reference: str, treatment: str) -> Equality:
    references, treatments = ([_print(one.runs[side]) for one in blocks] for side in (0, 1))
    return _plain(parity.compare_losses(references, treatments, reference, treatment))


def _print(run: Row | None) -> Mapping[str, Any]:
    return (fingerprint(run["fingerprint"]) if run else None) or {}


def _plain(result: parity.Parity) -> Equality:
    details = {name: _words(value) for name, value in result.details.items()}
    return Equality(result.status, result.fields, details, result.warnings)


def _words(value: object) -> str:
    if isinstance(value, tuple | list) and len(value) == 2:
        return f"{value[0]} ≠ {value[1]}"
    return str(value)
