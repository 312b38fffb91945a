"""Per-block ratios over the block's number: drift, outliers and disturbed attempts stay visible."""

from __future__ import annotations

import math
import textwrap
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tare.analysis import units
from tare.analysis.contrasts import RUNTIME
from tare.analysis.figures import style
from tare.analysis.pairing import CONTROL, Evidence
from tare.analysis.study_data import StudyData

TITLE = "Every block: cost ratio by block number"
#: a study with more panels gets more columns of lower ones
_MANY = 24
_PANEL = {2: 1.75, 3: 1.6}  # columns: inches
_TITLE = {2: 62, 3: 38}  # columns: characters of a line


def draw(data: StudyData) -> Figure:
    """Return one small panel for each machine, cell and metric."""
    with style.context():
        panels = [
            list(of_metric)
            for _, of_metric in groupby(
                (one for one in data.evidence if one.contrast in (RUNTIME, CONTROL)),
                key=lambda one: (one.machine_id, one.cell.id, one.metric),
            )
        ]
        panels = [
            panel
            for panel in panels
            if any(ratio.log_ratio is not None for one in panel for ratio in one.ratios)
        ]
        if not panels:
            return style.empty(
                data, TITLE, "No block has two valid runs to compare; the report lists the reasons."
            )
        return _draw(data, panels)


def _draw(data: StudyData, panels: list[list[Evidence]]) -> Figure:
    columns = 2 if len(panels) <= _MANY else 3
    rows = math.ceil(len(panels) / columns)
    drawn = style.figure(rows * _PANEL[columns] + 1.3)
    all_axes = drawn.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(all_axes, panels, strict=False):
        _panel(axes, data, panel, _TITLE[columns])
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    for axes in all_axes[max(len(panels) - columns, 0) : len(panels)]:
        axes.set_xlabel("block", fontsize=7.5)
    hollow = Line2D(
        [], [], color=style.GREY, marker="o", mfc="white", ls="", ms=5, label="hollow: disturbed attempt"
    )
    style.head(drawn, TITLE, [*style.pair_handles(data, line=True), hollow], columns=3)
    style.caption(
        drawn,
        data,
        "Lines join the attempts that count: the first undisturbed one of each block, else the last. "
        "Repeated attempts stay as unjoined hollow marks. Band: equivalence margin. Scales differ between panels.",
    )
    return drawn


def _panel(axes: Axes, data: StudyData, panel: list[Evidence], width: int) -> None:
    first = panel[0]
    title = f"{data.place_name(first.machine_id, first.cell)}: {first.metric.label}"
    axes.set_title(textwrap.fill(title, width), fontsize=8)
    margin = math.log1p(data.study.margin)
    axes.axhspan(-margin, margin, color=style.BAND, zorder=0)
    axes.axhline(0, color="#444444", lw=0.8, zorder=1)
    for index, one in enumerate(panel):
        _series(axes, data, one, (index - (len(panel) - 1) / 2) * 0.09)
    axes.set_xlim(0.5, max(data.study.blocks, 2) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    marks = style.ratio_ticks(*axes.get_ylim())
    axes.set_yticks([math.log(mark) for mark in marks], [units.axis_ratio(mark) for mark in marks])
    axes.tick_params(labelsize=7)
    style.grid(axes, "y")


def _series(axes: Axes, data: StudyData, one: Evidence, shift: float) -> None:
    colour, marker = style.pair_style(data, one.treatment, one.reference)
    joined = list(zip((ratio.block + shift for ratio in one.usable), one.log_ratios, strict=True))
    axes.plot([x for x, _ in joined], [y for _, y in joined], color=colour, lw=0.9, zorder=2)
    for ratio in one.ratios:
        if ratio.log_ratio is None:
            continue
        face = "white" if ratio.disturbed else colour
        axes.plot(
            [ratio.block + shift],
            [ratio.log_ratio],
            marker=marker,
            ms=4.5,
            ls="",
            mec=colour,
            mfc=face,
            zorder=3,
        )
