"""The summary as plain text: at most 100 columns, one part for each cell, two lines for each metric."""

from __future__ import annotations

import textwrap
from itertools import groupby

from tare.analysis import incidents, notes, units, view
from tare.analysis.answer import answer
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.study_data import StudyData, short
from tare.analysis.verdict import EQUIVALENT

WIDTH = 100
#: the part on what went wrong, its heading and the line on the rest included
MOST_TROUBLE_LINES = 12
_COLUMN = 24  # holds the sign and an interval like [−65.5 %, +173.6 %]
_INDENT = "    "


def terminal(data: StudyData, page: str) -> str:
    """Return the summary; ``page`` is the path of the report, which holds what is left out here."""
    first, second = answer(data)
    progress = "" if first.startswith("Partial") else f", {data.progress()}"  # the answer says it then
    lines = [f"Study {data.study.study}{progress}."]
    for text in (first, second, notes.noise_floor(data), notes.disturbed_share(data)):
        lines += _wrap(text) if text else []
    lines += ["", *_verdicts(data)]
    trouble = troubles(data)
    lines += ["", *trouble] if trouble else []
    return "\n".join([*lines, "", f"Report: {page}"]) + "\n"


def _wrap(text: str, first: str = "", later: str = "", most: int | None = None) -> list[str]:
    """Return ``text`` in lines of ``WIDTH``, numbers kept with their units; cut after ``most`` lines."""
    wrapped = textwrap.wrap(
        units.nobreak(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        max_lines=most,
        placeholder=" …",
        break_on_hyphens=False,
    )
    return [line.replace("\u00a0", " ") for line in wrapped]


def _verdicts(data: StudyData) -> list[str]:
    """Return the verdicts by cell: medians in one line, below them sign and interval of every pair and the control."""
    shown = view.groups(data)
    if not shown:
        return ["No comparison yet."]
    heads = [f"  {name}" for name in [*(f"{one} ÷ {other}" for one, other in data.pairs), "control"]]
    width = max(_COLUMN, *(len(head) + 2 for head in heads))
    lines = [*_legend(units.margin(data.study.margin)), *_columns(heads, width)]
    for (machine, cell), of_cell in groupby(shown, key=lambda group: (group.machine, group.cell)):
        lines.append(cell if len(data.machines) == 1 else f"{cell} on {short(machine)}")
        for group in of_cell:
            lines += _metric(group, width)
    return lines


def _legend(margin: str) -> list[str]:
    signs = {mark: word for word, mark in VERDICT_MARK.items()}
    signs[VERDICT_MARK[EQUIVALENT]] += f" within {margin}"
    listed = ", ".join(f"{mark}\u00a0{word}" for mark, word in signs.items())
    return _wrap(f"Medians, then the 90 % interval of every cost ratio, + is slower: {listed}.")


def _metric(group: view.Group, width: int) -> list[str]:
    values = ", ".join(f"{runtime} {value}".replace(" ", "\u00a0") for runtime, value in group.medians)
    verdicts = [f"{line.mark} {line.interval or line.verdict}" for line in group.lines]
    control = f"  {group.control[1] or 'none'}"
    return [*_wrap(f"{group.what}: {values}", "  ", _INDENT), *_columns([*verdicts, control], width)]


def _columns(cells: list[str], width: int) -> list[str]:
    """Return the cells in as many columns of ``width`` as fit a line, folded onto further lines."""
    number = (WIDTH - len(_INDENT)) // width
    rows = [cells[start : start + number] for start in range(0, len(cells), number)]
    return [(_INDENT + "".join(cell.ljust(width) for cell in row)).rstrip() for row in rows]


def troubles(data: StudyData) -> list[str]:
    """Return what did not go as planned in at most ``MOST_TROUBLE_LINES`` lines, worst first; the page has the rest."""
    found = incidents.troubles(data)
    lines = ["Not as planned:"] if found else []
    for number, one in enumerate(found):
        wrapped = _wrap(f"{one.kind}: {one.cell}: {one.words}", "  ", _INDENT, most=2)
        last = number + 1 == len(found)
        if len(lines) + len(wrapped) > MOST_TROUBLE_LINES - (0 if last else 1):
            return [*lines, f"  … and {len(found) - number} more in the report"]
        lines += wrapped
    return lines
