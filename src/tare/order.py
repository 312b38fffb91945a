"""The order of the runs in a block: a hash of (seed, cell, block number), so more blocks change no earlier one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple


class Slot(NamedTuple):
    """One run of a block: its place in the order, how it is started, and whether it is the control."""

    position: int
    runtime: str
    role: str  # measure | control


def _hash(*parts: object) -> bytes:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def slots(seed: int, cell: str, block: int, runtimes: Sequence[str], control: str) -> tuple[Slot, ...]:
    """Return the runs of a block in order: every runtime once and the control runtime twice.

    The order is by sha256, not by a random generator: it is the same in every version of every language.
    Both slots of the control runtime are shuffled with the others; which of the two is called control is
    drawn by a hash of its own, so that neither role is favoured by its place.
    """
    entries = [(runtime, 0) for runtime in runtimes] + [(control, 1)]
    ordered = sorted(entries, key=lambda entry: _hash(seed, cell, block, *entry))
    control_copy = _hash(seed, cell, block, "control")[0] & 1
    return tuple(
        Slot(position, runtime, "control" if runtime == control and copy == control_copy else "measure")
        for position, (runtime, copy) in enumerate(ordered)
    )
