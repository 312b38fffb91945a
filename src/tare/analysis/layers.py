"""The verdicts layer by layer: how many of which kind, what is worst, and the metrics in that order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tare.analysis import verdict
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.view import Group, Line
from tare.records import VERDICTS
from tare.workloads.declaration import LAYERS

#: a study with more metrics than this shows its layers folded
FOLD_BEYOND = 16


@dataclass(frozen=True)
class Tally:
    """The verdicts of one pair in one layer, and the line that costs most among the slower ones."""

    pair: str
    counts: tuple[tuple[str, str, int], ...]  # sign, verdict, number
    worst: Line | None

    @property
    def brief(self) -> str:
        """The counts as signs: ``▲ 2 ≈ 5``; a dash where the layer lacks the pair."""
        return " ".join(f"{mark} {number}" for mark, _, number in self.counts) or "–"


@dataclass(frozen=True)
class Layer:
    """One layer of the machine: its pairs in reading order, a tally of each, and its groups, worst first."""

    name: str
    pairs: tuple[str, ...]
    tallies: tuple[Tally, ...]
    groups: tuple[Group, ...]

    def tally(self, pair: str) -> Tally:
        """Return the tally of a pair, an empty one where the layer does not compare it."""
        return next((one for one in self.tallies if one.pair == pair), Tally(pair, (), None))


def layers(groups: Sequence[Group], pairs: Sequence[str]) -> list[Layer]:
    """Return the layers that ``groups`` lie in, in the order of ``LAYERS``; ``pairs`` in reading order."""
    by_layer = {name: [group for group in groups if group.layer == name] for name in LAYERS}
    return [_layer(name, here, pairs) for name, here in by_layer.items() if here]


def _layer(name: str, groups: Sequence[Group], pairs: Sequence[str]) -> Layer:
    there = tuple(pair for pair in pairs if any(group.line(pair) for group in groups))
    worst_first = sorted(groups, key=lambda group: group.urgency, reverse=True)
    return Layer(name, there, tuple(_tally(pair, groups) for pair in there), tuple(worst_first))


def _tally(pair: str, groups: Sequence[Group]) -> Tally:
    lines = [line for group in groups if (line := group.line(pair))]
    counts = Counter(line.verdict for line in lines)
    slower = [line for line in lines if line.verdict == verdict.SLOWER]
    return Tally(
        pair,
        tuple((VERDICT_MARK[name], name, counts[name]) for name in VERDICTS if counts[name]),
        max(slower, key=lambda line: line.urgency, default=None),
    )
