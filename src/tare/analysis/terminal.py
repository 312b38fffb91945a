"""The summary as plain text: at most 100 columns; two lines for each metric, or of many metrics only the worst."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from tare.analysis import incidents, layers, notes, units, view
from tare.analysis.answer import answer
from tare.analysis.costs import what_costs
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.study_data import StudyData
from tare.analysis.verdict import EQUIVALENT, SLOWER

WIDTH = 100
#: the part on what went wrong, its heading and the line on the rest included
MOST_TROUBLE_LINES = 12
#: of a study with many metrics only so many of those that cost are shown
MOST_METRICS = 8
_COLUMN = 24  # holds the sign and an interval like [−65.5 %, +173.6 %]
_INDENT = "    "


def terminal(data: StudyData, page: str) -> str:
    """Return the summary; ``page`` is the path of the report, which holds what is left out here."""
    first, second = answer(data)
    third = what_costs(data)
    progress = "" if first.startswith("Partial") else f", {data.progress()}"  # the answer says it then
    lines = [f"Study {data.study.study}{progress}."]
    for text in (first, second, third, notes.noise_floor(data), notes.disturbed_share(data)):
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
    pairs = [pair for pair in data.pair_names if any(group.line(pair) for group in shown)]
    heads = [f"  {name}" for name in [*pairs, "control"]]
    width = max(_COLUMN, *(len(head) + 2 for head in heads))
    lines = _legend(units.margin(data.study.margin))
    worst = shown
    if len(shown) > layers.FOLD_BEYOND:
        lines += _glance(shown, pairs, width)
        worst = _worst(shown)
    lines += _columns(heads, width) if worst else []
    for (machine, cell), of_cell in groupby(worst, key=lambda group: group.place):
        lines.append(data.place_name(machine, data.cells[cell]))
        for group in of_cell:
            lines += _metric(group, pairs, width)
    left = len(shown) - len(worst)
    return [*lines, f"… and {units.count(left, 'metric')} more in the report"] if left else lines


def _worst(shown: Sequence[view.Group]) -> list[view.Group]:
    """Return the groups with a line that costs, the worst first, as many as fit."""
    dear = [group for group in shown if any(line.verdict == SLOWER for line in group.told)]
    return sorted(dear, key=lambda group: group.urgency, reverse=True)[:MOST_METRICS]


def _glance(shown: Sequence[view.Group], pairs: Sequence[str], width: int) -> list[str]:
    """Return the verdicts of every layer, counted by pair."""
    lines = []
    for layer in layers.layers(shown, pairs):
        lines.append(f"{layer.name} ({units.count(len(layer.groups), 'metric')})")
        lines += _columns([f"  {tally.pair}: {tally.brief}" for tally in layer.tallies], max(width, 32))
    return [*lines, "", "What costs most:"]


def _legend(margin: str) -> list[str]:
    signs = {mark: word for word, mark in VERDICT_MARK.items()}
    signs[VERDICT_MARK[EQUIVALENT]] += f" within {margin}"
    listed = ", ".join(f"{mark}\u00a0{word}" for mark, word in signs.items())
    return _wrap(f"Medians, then the 90 % interval of every cost ratio, + is slower: {listed}.")


def _metric(group: view.Group, pairs: Sequence[str], width: int) -> list[str]:
    values = ", ".join(f"{runtime} {value}".replace(" ", "\u00a0") for runtime, value in group.medians)
    found = (group.line(pair) for pair in pairs)
    verdicts = [f"{line.mark} {line.interval or line.verdict}" if line else "  –" for line in found]
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
