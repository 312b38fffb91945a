"""The study in words, ready to be laid out as HTML, Markdown or plain text: every format shows the same lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from tare.analysis import equality, medians, notes, units, verdict
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.pairing import Evidence, Row
from tare.analysis.statistics import MOST_BLOCKS
from tare.analysis.study_data import StudyData, label

#: more fields than this are counted, not listed
_MOST_FIELDS = 6
#: more blocks than this are no advice
WORTHWHILE_BLOCKS = 50
_FIGURE_OF_PHASE = {"startup": "startup", "first": "epochs"}
_HASHES = re.compile(r"[0-9a-f]{16,} ≠ [0-9a-f]{16,}")


@dataclass(frozen=True)
class Line:
    """One verdict: numbers as text, and what must be known beside them."""

    anchor: str
    machine: str
    cell: str
    what: str
    pair: str
    label: str
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

    machine: str
    cell: str
    what: str
    medians: tuple[tuple[str, str], ...]  # runtime, quantity
    control: tuple[str, str]  # ratio, interval
    warnings: tuple[str, ...]
    lines: tuple[Line, ...]


def groups(data: StudyData) -> list[Group]:
    """Return one group for each machine, cell and metric, in the order of the study."""
    evidence = notes.evidence_by_row(data)
    numbers = count(1)
    return [_group(data, rows, evidence, numbers) for rows in data.groups]


def lines(data: StudyData) -> list[Line]:
    """Return one line for each row of the table ``comparisons``, in reading order."""
    return [line for group in groups(data) for line in group.lines]


def remarks(shown: Sequence[Group]) -> dict[str, int]:
    """Return every warning of the groups with the number of verdicts it concerns: what many share is said once."""
    found: dict[str, int] = {}
    for group in shown:
        for line in group.lines:
            for text in (*group.warnings, *line.warnings):
                found[text] = found.get(text, 0) + 1
    return found


def _group(
    data: StudyData,
    rows: Sequence[Row],
    evidence: Mapping[tuple[str, ...], Evidence],
    numbers: Iterable[int],
) -> Group:
    first = rows[0]
    return Group(
        machine=first["machine_id"],
        cell=first["cell"],
        what=label(first),
        medians=medians.shown(data, first),
        control=_control(first),
        warnings=tuple(notes.control_warnings(first)),
        lines=tuple(
            _line(data, number, row, evidence[notes.row_key(row)])
            for row, number in zip(rows, numbers, strict=False)
        ),
    )


def _line(data: StudyData, number: int, row: Row, evidence: Evidence) -> Line:
    same = equality.judge(evidence)
    comparable = row["verdict"] != verdict.NOT_COMPARABLE
    return Line(
        anchor=f"verdict-{number}",
        machine=row["machine_id"],
        cell=row["cell"],
        what=label(row),
        pair=f"{row['treatment']} ÷ {row['reference']}",
        label=verdict.treatment_label(row["treatment"], row["reference"]),
        cost=units.percent(row["ratio"]) if comparable else units.MISSING,
        interval=units.interval(row["ci_low"], row["ci_high"]) if comparable else "",
        verdict=row["verdict"],
        mark=VERDICT_MARK[row["verdict"]],
        explained=explain(row, same.details),
        advice=_advice(row),
        blocks=f"{row['blocks']} of {data.study.blocks}",
        p_equivalence=units.probability(row["p_equivalence"]),
        p_difference=units.probability(row["p_difference"]),
        warnings=(*notes.warnings(data, row, evidence), *(same.warnings if comparable else ())),
        figure=_FIGURE_OF_PHASE.get(row["phase"], "blocks"),
    )


def _control(row: Row) -> tuple[str, str]:
    if row["noise_ratio"] is None:
        return ("none", "")
    return units.percent(row["noise_ratio"]), units.interval(row["noise_ci_low"], row["noise_ci_high"])


def explain(row: Row, details: Mapping[str, str]) -> str:
    """Return what stands behind the verdict's word: how much it says, blocks needed, or why not comparable."""
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


def _advice(row: Row) -> str:
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
