"""Waterfall: what each step from the host to the container costs, and whether docker's defaults add up to the whole."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tare.analysis import units, verdict
from tare.analysis.figures import style
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData
from tare.analysis.waterfall import Waterfall, waterfalls

TITLE = "Which step costs: from the host to the container"
#: a cell with more metrics shows those with the largest steps
MOST_METRICS = 6
_COLUMNS = 3
_ROW = 0.185  # inches
_SIGNED = {
    verdict.SLOWER: "#D55E00",
    verdict.FASTER: "#0072B2",
    verdict.EQUIVALENT: "#009E73",
    verdict.INCONCLUSIVE: "#b0b0b0",
}
_TOTAL = "#333333"
_NOISE = "#9a9a9a"
_LABEL_WIDTH, _TITLE_WIDTH = 28, 34  # characters


def draw(data: StudyData) -> Figure:
    """Return a panel for each machine, cell and metric: steps as a waterfall, the total, then docker's defaults."""
    with style.context():
        if not (data.study.ladder or data.study.star):
            return style.empty(
                data,
                TITLE,
                "This study has no ladder and no star of runtimes, so it cannot say which feature costs; "
                "config/presets/attribution.yaml has both.",
            )
        panels = waterfalls(data, MOST_METRICS)
        if not panels:
            return style.empty(data, TITLE, "No block of the ladder has been measured yet.")
        more = (
            "Below it each default of docker left out alone (docker ÷ docker without it), and what the total has "
            f"beyond their product; these do not start where others end. At most {MOST_METRICS} metrics a cell, those "
            "with the largest steps; comparisons has all. "
        )
        return _draw(data, panels, _of_cell, more)


def draw_some(data: StudyData, chosen: Collection[tuple[str, str]]) -> Figure:
    """Return the steps alone of the chosen (workload, metric) in one figure, for a page that has room for no more."""
    with style.context():
        panels = [
            replace(one, star=(), interaction=None)
            for one in waterfalls(data)
            if (one.cell.workload, one.metric) in chosen
        ]
        return _draw(data, panels, lambda one: (one.machine, labels(one)), "")


def _of_cell(one: Waterfall) -> tuple[object, ...]:
    return (one.machine, one.cell.id, labels(one))


def _draw(
    data: StudyData, panels: Sequence[Waterfall], together: Callable[[Waterfall], object], more: str
) -> Figure:
    """Return the panels in rows, those that ``together`` calls equal side by side; ``more``: part of the caption."""
    rows: list[list[Waterfall]] = []
    for _, group in groupby(panels, key=together):
        of_cell = list(group)
        rows += [of_cell[start : start + _COLUMNS] for start in range(0, len(of_cell), _COLUMNS)]
    heights = [len(labels(row[0])) * _ROW + 0.75 for row in rows]
    drawn = style.figure(sum(heights) + 1.6)
    grid = drawn.subplots(len(rows), _COLUMNS, squeeze=False, gridspec_kw={"height_ratios": heights})
    for all_axes, row in zip(grid, rows, strict=True):
        for number, axes in enumerate(all_axes):
            if number < len(row):
                _panel(axes, data, row[number], named=number == 0)
            else:
                axes.set_axis_off()
    style.head(drawn, TITLE, _handles(), columns=3)
    style.caption(
        drawn,
        data,
        "Each bar starts where the one before ended; thin lines are the steps' own 90 % intervals (paired by block). "
        "Hollow and grey: the interval contains 1 or lies within the control's own, so chance could have made it. "
        f"The total is measured, not added up. {more}Scales differ.",
    )
    return drawn


def labels(one: Waterfall) -> list[str]:
    """Return the words of every line of a panel, from above."""
    named = [f"+ {step.row['level']}" for step in one.steps]
    if one.steps:
        named.append(f"total: {one.last} ÷ {one.first}" if one.total else "no total")
    named += [f"docker's {row['level']}" for row in one.star]
    return [*named, *(["total ÷ product of these"] if one.interaction else [])]


def _handles() -> list[Patch]:
    named = {
        "slower": _SIGNED[verdict.SLOWER],
        "faster": _SIGNED[verdict.FASTER],
        "equivalent within the margin, but measurable": _SIGNED[verdict.EQUIVALENT],
        "no verdict": _SIGNED[verdict.INCONCLUSIVE],
        "total": _TOTAL,
    }
    noise = Patch(facecolor="white", edgecolor=_NOISE, label="noise")
    return [*(Patch(color=colour, label=name) for name, colour in named.items()), noise]


def _panel(axes: Axes, data: StudyData, one: Waterfall, named: bool) -> None:
    place = textwrap.wrap(data.place_name(one.machine, one.cell), _TITLE_WIDTH, break_on_hyphens=False)
    axes.set_title("\n".join([*place, one.metric]), fontsize=7.5)
    axes.axvline(0, color="#444444", lw=0.8, zorder=1)
    y = 0
    for step in one.steps:
        _row(axes, step.row, y, step.start)
        if step.comparable and step is not one.steps[-1]:
            axes.plot([step.end, step.end], [y + 0.31, y + 0.69], color="#888888", lw=0.6, zorder=1)
        y += 1
    if one.steps:
        _row(axes, one.total, y, colour=_TOTAL)
        y += 1
    for row in (*one.star, *([one.interaction] if one.interaction else [])):
        if row is one.interaction or row is one.star[0]:
            axes.axhline(y - 0.5, color="#bbbbbb", lw=0.6)
        _row(axes, row, y, marker="D" if row is one.interaction else "o")
        y += 1
    words = [textwrap.fill(text, _LABEL_WIDTH, max_lines=2, placeholder=" …") for text in labels(one)]
    axes.set_yticks(range(y), words if named else [""] * y, fontsize=7, linespacing=0.9)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.4, -0.6)
    _scale(axes, data.study.margin)


def _scale(axes: Axes, margin: float) -> None:
    low, high = axes.get_xlim()
    room = math.log1p(margin) * 0.5  # differences far below the margin must not fill a panel
    low, high = min(low, -room), max(high, room)
    axes.set_xlim(low, high)
    marks = style.ratio_ticks(low, high, most=4)
    axes.set_xticks(
        [math.log(mark) for mark in marks], [units.axis_ratio(mark) for mark in marks], fontsize=6.8
    )
    style.grid(axes, "x")


def _row(
    axes: Axes,
    row: Row | None,
    y: int,
    start: float = 0.0,
    colour: str | None = None,
    marker: str | None = None,
) -> None:
    """Draw one line: a bar from ``start`` (the total: in its ``colour``) or, with ``marker``, a dot; and its number."""
    if row is None or row["verdict"] == verdict.NOT_COMPARABLE:
        _number(axes, y, f"{style.VERDICT_MARK[verdict.NOT_COMPARABLE]} not comparable", _NOISE)
        return
    noise = verdict.within_noise(row)
    ink = _NOISE if noise else colour or _SIGNED[row["verdict"]]
    text = _NOISE if noise else "#222222"
    face = "white" if noise else ink
    low, middle, high = (start + math.log(row[name]) for name in ("ci_low", "ratio", "ci_high"))
    if marker:
        axes.plot([middle], [y], marker=marker, ms=4.5, mec=ink, mfc=face, ls="", zorder=3)
    else:
        axes.barh(
            y, middle - start, left=start, height=0.62, facecolor=face, edgecolor=ink, linewidth=0.9, zorder=2
        )
    whisker = ink if marker else _NOISE if colour else text
    axes.plot([low, high], [y, y], color=whisker, lw=1.1, solid_capstyle="butt", zorder=2.5)
    _number(axes, y, units.percent(row["ratio"]), text, bold=not noise)


def _number(axes: Axes, y: int, text: str, colour: str, bold: bool = False) -> None:
    axes.annotate(
        text,
        (1, y),
        (3, 0),
        axes.get_yaxis_transform(),
        "offset points",
        va="center",
        fontsize=6.8,
        color=colour,
        fontweight="bold" if bold else "normal",
    )
