"""Forest plot: cost ratio and interval of each pair in every cell and metric, the margin, the control beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from tare.analysis import units, verdict
from tare.analysis.figures import style
from tare.analysis.pairing import CONTROL, Row
from tare.analysis.study_data import StudyData
from tare.config import Cell

TITLE = "What it costs: cost ratio with 90 % interval"
_LINE = 0.165  # inches of one interval
#: half-widths of the axis; the first that holds most intervals is taken, the rest is written beside an arrow
_LIMITS = (1 / 0.9, 1.25, 1.5, 2.0, 4.0, 16.0, 64.0, 256.0)
_TICKS = (
    (1 / 0.9, [0.9, 0.95, 1, 1.05, 1.1]),
    (1.25, [0.8, 0.9, 1, 1.1, 1.25]),
    (1.5, [0.7, 0.8, 1, 1.25, 1.5]),
    (2.0, [0.5, 0.7, 1, 1.4, 2]),
)


def draw(data: StudyData) -> Figure:
    """Return the forest plot, one panel for each machine and cell."""
    with style.context():
        if not data.comparisons:
            return style.empty(data, TITLE, "No block has been measured yet, so there is nothing to compare.")
        return _draw(data)


def _draw(data: StudyData) -> Figure:
    panels = [(machine, cell, _lines(data, machine, cell)) for machine, cell in data.places()]
    limit = axis_limit([row for _, _, lines in panels for row in lines], data.study.margin)
    heights = [max(len(lines), 1) + _gaps(lines) + 2.2 for _, _, lines in panels]
    drawn = style.figure(sum(heights) * _LINE + 1.5)
    all_axes = drawn.subplots(
        len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for axes, (machine, cell, lines) in zip(all_axes[:, 0], panels, strict=True):
        axes.set_title(data.place_name(machine, cell))
        _panel(axes, data, cell, lines, limit)
    all_axes[-1, 0].set_xlabel("cost ratio − 1   (right of the line: slower;  left: faster)")
    band = Patch(color=style.BAND, label=f"margin {units.margin(data.study.margin)}")
    style.head(drawn, TITLE, [*style.pair_handles(data), band], columns=3)
    style.caption(
        drawn,
        data,
        "Paired by block: geometric mean of the blocks' ratios, 90 % t interval; throughput is inverted. "
        "The control is the same runtime twice in each block: its interval is the noise floor. n: usable blocks.",
    )
    return drawn


def _lines(data: StudyData, machine: str, cell: Cell) -> list[Row]:
    """Return the rows of one cell in the order of drawing, each metric closed by its control."""
    lines: list[Row] = []
    for rows in data.groups:
        if (rows[0]["machine_id"], rows[0]["cell"]) == (machine, cell.id):
            lines += [*rows, _control(rows[0], data.study.control_runtime())]
    return lines


def _control(row: Row, runtime: str) -> Row:
    noise = {"ratio": row["noise_ratio"], "ci_low": row["noise_ci_low"], "ci_high": row["noise_ci_high"]}
    return {**row, **noise, "treatment": CONTROL, "reference": runtime, "verdict": None, "blocks": None}


def _gaps(lines: Sequence[Row]) -> float:
    return 0.6 * len({row["metric"] for row in lines})


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


def _panel(axes: Axes, data: StudyData, cell: Cell, lines: Sequence[Row], limit: float) -> None:
    margin = data.study.margin
    axes.axvspan(-math.log1p(margin), math.log1p(margin), color=style.BAND, zorder=0)
    axes.axvline(0, color="#444444", lw=0.8, zorder=1)
    labels = {metric.name: metric.label for metric in cell.spec.metrics}
    ticks: list[tuple[float, str]] = []
    y, start, previous = 0.0, 0.0, None
    for row in lines:
        if previous is not None and row["metric"] != previous:
            ticks.append(((start + y - 1) / 2, labels.get(str(previous), str(previous))))
            y += 0.6
            start = y
        _line(axes, data, row, y, math.log(limit))
        previous, y = row["metric"], y + 1
    ticks.append(((start + y - 1) / 2, labels.get(str(previous), str(previous))))
    axes.set_yticks([position for position, _ in ticks], [label for _, label in ticks])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.4, -0.6)
    axes.set_xlim(-math.log(limit) * 1.04, math.log(limit) * 1.04)
    marks = _ticks(limit)
    axes.set_xticks([math.log(mark) for mark in marks], [units.axis_ratio(mark) for mark in marks])
    style.grid(axes, "x")


def _line(axes: Axes, data: StudyData, row: Row, y: float, edge: float) -> None:
    colour, marker = style.pair_style(data, row["treatment"], row["reference"])
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
