"""The study in words, ready to be laid out as HTML, Markdown or plain text: every format shows the same lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tare import parity
from tare.analysis import equality, notes, units, verdict
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.pairing import Evidence, Row
from tare.analysis.statistics import MOST_BLOCKS
from tare.analysis.study_data import StudyData

#: more fields than this are counted, not listed
_MOST_FIELDS = 6
_FIGURE_OF_PHASE = {"startup": "startup", "first": "epochs"}


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
    control_parts: tuple[str, str]  # cost, interval
    blocks: str
    p_equivalence: str
    p_difference: str
    warnings: tuple[str, ...]
    differs: str
    figure: str

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings and differences, as they stand below the table."""
        return self.warnings + ((self.differs,) if self.differs else ())

    @property
    def control(self) -> str:
        """The control's ratio and interval in one text."""
        return " ".join(part for part in self.control_parts if part)

    @property
    def badge(self) -> str:
        """The verdict's place in style sheets: one word."""
        return self.verdict.replace(" ", "-")


def lines(data: StudyData) -> list[Line]:
    """Return one line for each row of the table ``comparisons``, in its order."""
    evidence = notes.evidence_by_row(data)
    return [
        _line(data, number, row, evidence[notes.row_key(row)])
        for number, row in enumerate(data.comparisons, 1)
    ]


def _line(data: StudyData, number: int, row: Row, evidence: Evidence) -> Line:
    same = equality.judge(evidence)
    comparable = row["verdict"] != verdict.NOT_COMPARABLE
    return Line(
        anchor=f"verdict-{number}",
        machine=row["machine_id"],
        cell=row["cell"],
        what=evidence.metric.label,
        pair=f"{row['treatment']} ÷ {row['reference']}",
        label=verdict.treatment_label(row["treatment"], row["reference"]),
        cost=units.percent(row["ratio"]) if comparable else units.MISSING,
        interval=units.interval(row["ci_low"], row["ci_high"]) if comparable else "",
        verdict=row["verdict"],
        mark=VERDICT_MARK[row["verdict"]],
        explained=explain(row, same.details),
        control_parts=_control(row),
        blocks=f"{row['blocks']} of {data.study.blocks}",
        p_equivalence=units.probability(row["p_equivalence"]),
        p_difference=units.probability(row["p_difference"]),
        warnings=(*notes.warnings(data, row, evidence), *(same.warnings if comparable else ())),
        differs=_differs(row, same.details),
        figure=_FIGURE_OF_PHASE.get(row["phase"], "blocks"),
    )


def numbered(shown: Sequence[Line]) -> dict[str, int]:
    """Return every remark of the lines once, with its number: what many lines share is said once."""
    remarks = dict.fromkeys(remark for line in shown for remark in line.remarks)
    return {remark: number for number, remark in enumerate(remarks, 1)}


def _differs(row: Row, details: Mapping[str, str]) -> str:
    """Return in words the fields in which a pair with the host differs by construction."""
    if row["parity"] != "userland" or not row["parity_fields"]:
        return ""
    names = [*row["parity_fields"], *([parity.LOSSES] if parity.LOSSES in details else [])]
    return f"{row['treatment']} and {row['reference']} differ in userland: {_fields(names, details)}"


def _fields(names: Sequence[str], details: Mapping[str, str]) -> str:
    shown = [f"{name} ({details[name]})" if name in details else name for name in names[:_MOST_FIELDS]]
    more = (
        [f"and {len(names) - _MOST_FIELDS} more (column parity_fields)"] if len(names) > _MOST_FIELDS else []
    )
    return "; ".join(shown + more)


def _control(row: Row) -> tuple[str, str]:
    if row["noise_ratio"] is None:
        return ("none", "")
    return units.percent(row["noise_ratio"]), units.interval(row["noise_ci_low"], row["noise_ci_high"])


def explain(row: Row, details: Mapping[str, str]) -> str:
    """Return what stands behind the verdict's word: a measurable difference, blocks needed, or why not comparable."""
    if verdict.measurable(row["verdict"], row["ci_low"], row["ci_high"]):
        return f"measurable: {units.percent(row['ratio'])}"
    if row["verdict"] == verdict.INCONCLUSIVE:
        needed = row["blocks_needed"]
        return (
            f"about {needed} blocks would decide" if needed else f"even {MOST_BLOCKS} blocks would not decide"
        )
    if row["verdict"] == verdict.NOT_COMPARABLE:
        fields = row["parity_fields"] or ()
        if equality.TOO_FEW_BLOCKS in fields:
            return f"{units.count(row['blocks'], 'usable block')}, 2 are needed"
        kind = "evidence missing" if row["parity"] == "unknown" else "different software or work"
        return f"{kind}: {_fields(fields, details)}" if fields else kind
    return ""
