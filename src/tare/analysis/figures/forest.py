"""What forest plots share: panels of intervals with their numbers in words beside them, one axis for a section."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from tare.analysis import units, verdict
from tare.analysis.figures import style
from tare.analysis.pairing import CONTROL, Row
from tare.analysis.study_data import label

LINE = 0.165  # inches of one interval
#: half-widths of the axis; the first that holds most intervals is taken, the rest is written beside an arrow
_LIMITS = (1 / 0.9, 1.25, 1.5, 2.0, 4.0, 16.0, 64.0, 256.0)
_TICKS = (
    (1 / 0.9, [0.9, 0.95, 1, 1.05, 1.1]),
    (1.25, [0.8, 0.9, 1, 1.1, 1.25]),
    (1.5, [0.7, 0.8, 1, 1.25, 1.5]),
    (2.0, [0.5, 0.7, 1, 1.4, 2]),
)
_LABEL_WIDTH = 28  # characters
_HEADING, _TITLE, _GAP = 1.6, 2.2, 0.6  # lines
#: colour and marker of a row
Style = Callable[[Row], tuple[str, str]]


@dataclass(frozen=True)
class Panel:
    """One box of intervals: rows of one cell, the metrics kept together. Panels of one ``section`` share an axis."""

    section: str
    title: str
    rows: Sequence[Row]

    @property
    def metrics(self) -> list[list[Row]]:
        """The rows by metric, in their order."""
        return [list(rows) for _, rows in groupby(self.rows, key=lambda row: (row["phase"], row["metric"]))]


def control_row(row: Row, runtime: str) -> Row:
    """Return the control of a row's metric as a row of its own: ``runtime`` against itself."""
    noise = {"ratio": row["noise_ratio"], "ci_low": row["noise_ci_low"], "ci_high": row["noise_ci_high"]}
    return {**row, **noise, "treatment": CONTROL, "reference": runtime, "verdict": None, "blocks": None}


def draw(panels: Sequence[Panel], margin: float, style_of: Style) -> Figure:
    """Return the figure with one axes for each panel; sections get a heading when there are several."""
    sections = [list(of_section) for _, of_section in groupby(panels, key=lambda panel: panel.section)]
    headed = {id(of_section[0]) for of_section in sections} if len(sections) > 1 else set()
    heights = [_height(panel, id(panel) in headed) for panel in panels]
    drawn = style.figure(sum(heights) * LINE + 1.5)
    all_axes = drawn.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    free = iter(all_axes)
    for of_section in sections:
        limit = axis_limit([row for panel in of_section for row in panel.rows], margin)
        for panel in of_section:
            axes = next(free)
            axes.set_title(panel.title)
            _panel(axes, panel, limit, margin, style_of)
            if id(panel) in headed:
                _head(axes, panel.section)
            if panel is not of_section[-1]:
                axes.set_xticklabels([])
    all_axes[-1].set_xlabel("cost ratio − 1   (right of the line: slower;  left: faster)")
    return drawn


def _height(panel: Panel, headed: bool) -> float:
    """Return the height of a panel in lines."""
    return max(len(panel.rows), 1) + _GAP * len(panel.metrics) + _TITLE + (_HEADING if headed else 0)


def _head(axes: Axes, section: str) -> None:
    axes.annotate(
        section.upper(),
        (0, 1),
        (0, 22),
        "axes fraction",
        "offset points",
        fontsize=9.5,
        fontweight="bold",
        color="#00528a",
    )


def axis_limit(rows: Sequence[Row], margin: float) -> float:
    """Return the half-width (a ratio) of the axis: the smallest step that holds four intervals in five."""
    reach = [
        max(-math.log(row["ci_low"]), math.log(row["ci_high"])) for row in rows if row["ci_low"] is not None
    ]
    for limit in _LIMITS:
        inside = sum(one <= math.log(limit) for one in reach)
        if 1 + 1.5 * margin <= limit and inside >= 0.8 * len(reach):
            return limit
    return _LIMITS[-1]


def _panel(axes: Axes, panel: Panel, limit: float, margin: float, style_of: Style) -> None:
    axes.axvspan(-math.log1p(margin), math.log1p(margin), color=style.BAND, zorder=0)
    axes.axvline(0, color="#444444", lw=0.8, zorder=1)
    ticks: list[tuple[float, str]] = []
    y = 0.0
    for rows in panel.metrics:
        ticks.append((y + (len(rows) - 1) / 2, textwrap.fill(label(rows[0]), _LABEL_WIDTH)))
        for row in rows:
            _line(axes, row, y, math.log(limit), style_of(row))
            y += 1
        y += _GAP
    axes.set_yticks([position for position, _ in ticks], [text for _, text in ticks])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - _GAP - 0.4, -0.6)
    axes.set_xlim(-math.log(limit) * 1.04, math.log(limit) * 1.04)
    marks = _ticks(limit)
    axes.set_xticks([math.log(mark) for mark in marks], [units.axis_ratio(mark) for mark in marks])
    style.grid(axes, "x")


def _line(axes: Axes, row: Row, y: float, edge: float, look: tuple[str, str]) -> None:
    colour, marker = look
    _words(axes, row, y, colour, marker)
    if row["ratio"] is None or row["verdict"] == verdict.NOT_COMPARABLE:
        return
    low, middle, high = (math.log(row[name]) for name in ("ci_low", "ratio", "ci_high"))
    width = 1.0 if row["treatment"] == CONTROL else 1.6
    ends = [min(max(value, -edge), edge) for value in (low, high)]
    axes.plot(ends, [y, y], color=colour, lw=width, solid_capstyle="butt", zorder=2)
    if abs(middle) <= edge:
        axes.plot([middle], [y], color=colour, marker=marker, ms=4.5, zorder=3)
    for outside in {math.copysign(edge, value) for value in (low, high) if abs(value) > edge}:
        axes.plot([outside], [y], color=colour, marker=">" if outside > 0 else "<", ms=5, zorder=3)


def _words(axes: Axes, row: Row, y: float, colour: str, marker: str) -> None:
    """Write pair, ratio, interval and verdict to the right of the panel, in columns (offsets in points)."""
    ink = style.GREY if row["treatment"] == CONTROL else "#222222"
    at = axes.get_yaxis_transform()

    def put(offset: float, text: str, align: Literal["left", "right"] = "left") -> None:
        axes.annotate(
            text, (1, y), (offset, 0), at, "offset points", va="center", ha=align, fontsize=7.2, color=ink
        )

    assert axes.figure is not None
    shift = ScaledTranslation(12 / 72, 0, axes.figure.dpi_scale_trans)
    axes.plot([1], [y], color=colour, marker=marker, ms=3.5, transform=at + shift, clip_on=False)
    if row["ratio"] is not None and row["verdict"] != verdict.NOT_COMPARABLE:
        put(60, units.percent(row["ratio"]), "right")
        put(66, units.interval(row["ci_low"], row["ci_high"]))
    if row["treatment"] == CONTROL:
        put(160, "control" if row["ratio"] is not None else "no control")
    else:
        put(160, f"{style.VERDICT_MARK[row['verdict']]} {row['verdict']}, n={row['blocks']}")


def _ticks(limit: float) -> list[float]:
    steps = next((steps for most, steps in _TICKS if limit <= most), None)
    return steps or [1 / limit, 1 / math.sqrt(limit), 1, math.sqrt(limit), limit]
