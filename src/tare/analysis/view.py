"""The study in words, ready to be laid out as HTML, Markdown or plain text: every format shows the same lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from tare.analysis import explained, medians, notes, units, verdict
from tare.analysis.contrasts import INTERACTION, LADDER, OPTION, RUNTIME, STAR
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData, label, layer, row_key

#: contrast → the figure that shows it, which only studies with such contrasts have anything for
FIGURE_OF_CONTRAST = {LADDER: "ladder", STAR: "ladder", INTERACTION: "ladder", OPTION: "options"}
#: what asks for attention first: a cost, then what could be one
_URGENCY = {verdict.SLOWER: 3, verdict.INCONCLUSIVE: 2, verdict.FASTER: 1}


@dataclass(frozen=True)
class Line:
    """One verdict: numbers as text, and what must be known beside them."""

    anchor: str
    cell: str
    what: str
    contrast: str
    pair: str
    label: str  # what the pair differs in
    cost: str
    interval: str
    verdict: str
    mark: str
    explained: str
    advice: str  # blocks that would decide, in two or three words
    blocks: str
    p_equivalence: str
    p_difference: str
    warnings: tuple[str, ...]
    figure: str
    urgency: tuple[int, float]
    noise: bool  # chance could have made it

    @property
    def badge(self) -> str:
        """The verdict's place in style sheets: one word."""
        return self.verdict.replace(" ", "-")

    @property
    def brief(self) -> str:
        """The verdict with its numbers in one text; without a verdict no estimate, since it would be no cost."""
        if self.verdict == verdict.INCONCLUSIVE:
            return f"{self.mark} {self.verdict} {self.interval}, {self.advice}"
        parts = (self.mark, self.verdict, self.cost if self.interval else "", self.interval)
        explained = f" ({self.explained})" if not self.interval and self.explained else ""
        return " ".join(part for part in parts if part) + explained


@dataclass(frozen=True)
class Group:
    """One metric of one cell: its medians by runtime, its control, and the verdict of every pair in reading order."""

    layer: str
    machine: str
    cell: str
    what: str
    medians: tuple[tuple[str, str], ...]  # runtime, quantity
    control: tuple[str, str]  # ratio, interval
    warnings: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def place(self) -> tuple[str, str]:
        """Its machine and cell."""
        return self.machine, self.cell

    @property
    def urgency(self) -> tuple[int, float]:
        """The highest urgency of its lines."""
        return max(line.urgency for line in self.lines)

    @property
    def told(self) -> tuple[Line, ...]:
        """The lines with a difference that chance does not explain."""
        decided = (verdict.SLOWER, verdict.FASTER)
        return tuple(line for line in self.lines if line.verdict in decided and not line.noise)

    @property
    def untold(self) -> str:
        """The verdicts of the other lines, counted: ``5 equivalent, 2 inconclusive``."""
        told = [line.anchor for line in self.told]
        counts = Counter(line.verdict for line in self.lines if line.anchor not in told)
        return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"

    def line(self, pair: str) -> Line | None:
        """Return the line of a pair, or None where the cell does not compare it."""
        return next((line for line in self.lines if line.pair == pair), None)


def groups(data: StudyData) -> list[Group]:
    """Return one group for each machine, cell and metric that is compared, in the order of the study."""
    numbers = count(1)
    return [_group(data, rows, "verdict", numbers) for rows in data.groups]


def attributed(data: StudyData) -> list[Group]:
    """Return the same for ladder, star, options and interaction, in this order."""
    numbers = count(1)
    return [_group(data, rows, "step", numbers) for rows in data.attributed]


def _group(data: StudyData, rows: Sequence[Row], anchor: str, numbers: Iterator[int]) -> Group:
    first = rows[0]
    return Group(
        layer=layer(first),
        machine=first["machine_id"],
        cell=first["cell"],
        what=label(first),
        medians=medians.shown(data, first),
        control=_control(first),
        warnings=tuple(notes.control_warnings(first)),
        lines=tuple(_line(data, f"{anchor}-{next(numbers)}", row) for row in rows),
    )


def _line(data: StudyData, anchor: str, row: Row) -> Line:
    evidence, same = data.judged[row_key(row)]
    comparable = row["verdict"] != verdict.NOT_COMPARABLE
    contrast = row["contrast"]
    return Line(
        anchor=anchor,
        cell=row["cell"],
        what=label(row),
        contrast=contrast,
        pair=f"{row['treatment']} ÷ {row['reference']}",
        label=data.pair_label(row["treatment"], row["reference"]) if contrast == RUNTIME else step(row),
        cost=units.percent(row["ratio"]) if comparable else units.MISSING,
        interval=units.interval(row["ci_low"], row["ci_high"]) if comparable else "",
        verdict=row["verdict"],
        mark=VERDICT_MARK[row["verdict"]],
        explained=explained.explain(row, same.details),
        advice=explained.advice(row),
        blocks=f"{row['blocks']} of {data.study.blocks}",
        p_equivalence=units.probability(row["p_equivalence"]),
        p_difference=units.probability(row["p_difference"]),
        warnings=(*notes.warnings(data, row, evidence), *(same.warnings if comparable else ())),
        figure=_figure(row),
        urgency=urgency(row),
        noise=verdict.within_noise(row),
    )


def _figure(row: Row) -> str:
    """Return the figure that shows most of what is behind a row, beside the forest plot."""
    if row["contrast"] in FIGURE_OF_CONTRAST:
        return FIGURE_OF_CONTRAST[row["contrast"]]
    if row["phase"] == "first" and layer(row) == "training":
        return "epochs"
    return "startup" if row["phase"] == "startup" else "blocks"


def urgency(row: Row) -> tuple[int, float]:
    """Return what sorts rows: slower ones by the cost that is sure, then open ones by the cost that may be."""
    rank = _URGENCY.get(row["verdict"], 0)
    bound = {3: row["ci_low"], 2: row["ci_high"]}.get(rank)
    return rank, math.log(bound) if bound else 0.0


def step(row: Row) -> str:
    """Return what a row of ladder, star or options is about: ``+ network namespace``, ``docker's seccomp``."""
    prefix = {LADDER: "+ ", STAR: "docker's ", OPTION: "option: "}.get(row["contrast"], "")
    return f"{prefix}{row['level'] or row['treatment']}"


def _control(row: Row) -> tuple[str, str]:
    if row["noise_ratio"] is None:
        return ("none", "")
    return units.percent(row["noise_ratio"]), units.interval(row["noise_ci_low"], row["noise_ci_high"])
