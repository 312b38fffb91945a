"""First epoch against the steady ones: seconds of every epoch, per runtime."""

from __future__ import annotations

import math
from statistics import median

import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tare.analysis.figures import style
from tare.analysis.study_data import StudyData, ok_runs
from tare.config import Cell

TITLE = "First epoch against steady epochs"
METRIC = "epoch_seconds"
#: run_id → (epoch → seconds)
Epochs = dict[str, dict[int, float]]


def draw(data: StudyData) -> Figure:
    """Return one panel for each machine and training cell: every valid counting run a dot, medians joined."""
    with style.context():
        epochs = epoch_seconds(data)
        places = [(machine, cell) for machine, cell in data.places() if _has(data, machine, cell, epochs)]
        if not places:
            return style.empty(data, TITLE, "No valid run of this study has epochs.")
        return _draw(data, places, epochs)


def epoch_seconds(data: StudyData) -> Epochs:
    """Return the seconds of every epoch of every run."""
    table = data.samples.filter(pc.field("metric") == METRIC)
    found: Epochs = {}
    for run_id, epoch, value in zip(
        *(table.column(n).to_pylist() for n in ("run_id", "epoch", "value")), strict=True
    ):
        if epoch is not None and value is not None and math.isfinite(value):
            found.setdefault(run_id, {})[epoch] = value
    return found


def _has(data: StudyData, machine: str, cell: Cell, epochs: Epochs) -> bool:
    counted = data.counted(machine, cell.id)
    return any(
        run["run_id"] in epochs for runtime in data.runtimes_of(cell) for run in ok_runs(counted, runtime)
    )


def _draw(data: StudyData, places: list[tuple[str, Cell]], epochs: Epochs) -> Figure:
    columns = min(2, len(places))
    rows = math.ceil(len(places) / columns)
    drawn = style.figure(rows * 2.6 + 1.3)
    all_axes = drawn.subplots(rows, columns, squeeze=False).ravel()
    for axes, (machine, cell) in zip(all_axes, places, strict=False):
        _panel(axes, data, machine, cell, epochs)
    for axes in all_axes[len(places) :]:
        axes.set_axis_off()
    handles = []
    for runtime in dict.fromkeys(name for _, cell in places for name in data.runtimes_of(cell)):
        colour, marker, _ = style.runtime_style(data, runtime)
        handles.append(style.handle((colour, marker), runtime, line=True))
    style.head(drawn, TITLE, handles, columns=6)
    style.caption(
        drawn,
        data,
        "One faint mark for each valid run of the attempts that count; lines join the medians. "
        "Epoch 1 reads its data with the page cache in the state that the cell names. The axis does not start at 0.",
    )
    return drawn


def _panel(axes: Axes, data: StudyData, machine: str, cell: Cell, epochs: Epochs) -> None:
    cache = cell.factors.get("cache")
    axes.set_title(data.place_name(machine, cell) + (f" (cache: {cache})" if cache else ""), fontsize=8.5)
    counted = data.counted(machine, cell.id)
    numbers: set[int] = set()
    runtimes = data.runtimes_of(cell)
    for index, runtime in enumerate(runtimes):
        colour, marker, _ = style.runtime_style(data, runtime)
        shift = (index - (len(runtimes) - 1) / 2) * 0.12
        by_epoch: dict[int, list[float]] = {}
        for run in ok_runs(counted, runtime):
            for epoch, value in epochs.get(run["run_id"], {}).items():
                by_epoch.setdefault(epoch, []).append(value)
                axes.plot(
                    [epoch + 1 + shift], [value], marker=marker, ms=4, ls="", color=colour, alpha=0.35, mew=0
                )
        order = sorted(by_epoch)
        numbers |= set(order)
        medians = [median(by_epoch[epoch]) for epoch in order]
        axes.plot(
            [epoch + 1 + shift for epoch in order], medians, color=colour, marker=marker, ms=5.5, lw=1.3
        )
    axes.set_xticks([number + 1 for number in sorted(numbers)])
    axes.set_xlabel("epoch", fontsize=8)
    axes.set_ylabel("seconds", fontsize=8)
    style.grid(axes, "y")
