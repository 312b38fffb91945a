"""What options that are no default cost: a runtime with the option ÷ the same without it, in every cell and metric."""

from __future__ import annotations

from matplotlib.figure import Figure

from tare.analysis.contrasts import OPTION
from tare.analysis.figures import forest, style
from tare.analysis.pairing import CONTROL, Row
from tare.analysis.study_data import StudyData, most_moved
from tare.config import Cell

TITLE = "What your flags cost: with an option ÷ the same without it"
#: a cell with more metrics shows those that an option moves most
MOST_METRICS = 6


def draw(data: StudyData) -> Figure:
    """Return a panel for each machine and cell: in it, by metric, an interval for each option, and the control."""
    with style.context():
        if not data.study.options:
            return style.empty(
                data, TITLE, "This study has no options; config/presets/attribution.yaml has some."
            )
        panels = [
            forest.Panel("", data.place_name(machine, cell), rows)
            for machine, cell in data.places()
            if (rows := _rows(data, machine, cell))
        ]
        if not panels:
            return style.empty(data, TITLE, "No block with an option has been measured yet.")
        return _draw(data, panels)


def _draw(data: StudyData, panels: list[forest.Panel]) -> Figure:
    drawn = forest.draw(panels, data.study.margin, lambda row: _style(data, row["treatment"]))
    handles = [style.handle(_style(data, name), data.study.step(name)) for name in data.study.options]
    handles.append(style.handle(_style(data, CONTROL), "control"))
    style.head(drawn, TITLE, [*handles, style.margin_handle(data.study.margin)], columns=3)
    style.caption(
        drawn,
        data,
        "Paired by block, 90 % t interval; throughput is inverted. The control is one runtime twice in each block: "
        f"its interval is the noise floor. At most {MOST_METRICS} metrics a cell, those that an option moves most; "
        "the table comparisons has all.",
    )
    return drawn


def _rows(data: StudyData, machine: str, cell: Cell) -> list[Row]:
    groups = data.attributed_at(machine, cell.id, [OPTION])
    return [
        row
        for rows in most_moved(groups, MOST_METRICS)
        for row in [*rows, forest.control_row(rows[0], cell.control)]
    ]


def _style(data: StudyData, option: str) -> tuple[str, str]:
    if option == CONTROL:
        return style.CONTROL_STYLE
    return style.PAIR_STYLE[data.study.options.index(option) % len(style.PAIR_STYLE)]
