"""Whether a training did its work, by its losses and counts; standard library only, for every framework."""

from __future__ import annotations

import math
from typing import List


def training_reasons(losses: List[float], per_epoch: int, epochs: int, seen: int, expected: int) -> List[str]:
    """Return what is wrong with a training run: samples left out, losses that are missing, not finite or not falling.

    The mean loss of the last epoch must be below that of the first (the last half below the first half in a run of
    one epoch): single steps differ by their batches, the means of whole epochs do not.
    """
    reasons = []
    if seen != expected:
        reasons.append("samples seen: %d, expected %d" % (seen, expected))
    if not all(math.isfinite(loss) for loss in losses):
        reasons.append("a loss is not finite: the training diverged")
    if len(losses) != per_epoch * epochs:
        return [*reasons, "losses: %d, expected %d" % (len(losses), per_epoch * epochs)]
    part = per_epoch if epochs > 1 else per_epoch // 2
    if part == 0:
        return [*reasons, "one step in all cannot show that the loss falls"]
    first, last = sum(losses[:part]) / part, sum(losses[-part:]) / part
    if not last < first:
        reasons.append("loss does not fall: mean %.6g at first, %.6g at last" % (first, last))
    return reasons
