"""Forest plot: cost ratio and interval of each pair in every cell and metric, the margin, the control beside it."""

from __future__ import annotations

from matplotlib.figure import Figure

from tare.analysis.figures import forest, style
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData
from tare.config import Cell
from tare.workloads.declaration import LAYERS

TITLE = "What it costs: cost ratio with 90 % interval"


def draw(data: StudyData) -> Figure:
    """Return the forest plot: a section for each layer, in it a panel for each machine and cell."""
    with style.context():
        if not data.compared:
            return style.empty(data, TITLE, _why_empty(data))
        return _draw(data)


def _why_empty(data: StudyData) -> str:
    if data.runs and not data.study.comparisons:
        return "This study asks for no comparison; name pairs under `comparisons` in its config."
    return "No block has been measured yet, so there is nothing to compare."


def _draw(data: StudyData) -> Figure:
    panels = [
        forest.Panel(cell.spec.layer, data.place_name(machine, cell), rows)
        for machine, cell in data.places()
        if (rows := _rows(data, machine, cell))
    ]
    panels.sort(key=lambda panel: LAYERS.index(panel.section))
    drawn = forest.draw(
        panels, data.study.margin, lambda row: style.pair_style(data, row["treatment"], row["reference"])
    )
    handles = [*style.pair_handles(data), style.margin_handle(data.study.margin)]
    style.head(drawn, TITLE, handles, columns=3)
    style.caption(
        drawn,
        data,
        "Paired by block: geometric mean of the blocks' ratios, 90 % t interval; throughput is inverted. "
        "The control is the same runtime twice in each block: its interval is the noise floor. n: usable blocks. "
        "Each layer has an axis of its own.",
    )
    return drawn


def _rows(data: StudyData, machine: str, cell: Cell) -> list[Row]:
    """Return the rows of one cell in the order of drawing, each metric closed by its control."""
    lines: list[Row] = []
    for rows in data.groups:
        if (rows[0]["machine_id"], rows[0]["cell"]) == (machine, cell.id):
            lines += [*rows, forest.control_row(rows[0], cell.control)]
    return lines
