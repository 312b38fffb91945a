"""Where the time of a run goes: start, until ready, first epoch, steady epochs or the program, the rest."""

from __future__ import annotations

from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tare.analysis import units
from tare.analysis.figures import style
from tare.analysis.figures.epochs import Epochs, epoch_seconds
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData, ok_runs

TITLE = "Where the time of a run goes"
#: place, runtime, number of runs, mean seconds of each part
Line = tuple[str, str, int, list[float]]
_LINE = 0.26  # inches
PARTS = (
    ("start", "#0072B2", ""),
    ("import and build until ready", "#56B4E9", "//"),
    ("first epoch", "#D55E00", "xx"),
    ("steady epochs", "#E69F00", ".."),
    ("rest: hand-over, program, exit", "#c9c9c9", ""),
)


def draw(data: StudyData) -> Figure:
    """Return stacked bars: the mean seconds of each part, per cell and runtime."""
    with style.context():
        epochs = epoch_seconds(data)
        lines: list[Line] = []
        for machine, cell in data.places():
            for runtime in data.runtimes_of(cell):
                found = [
                    one
                    for run in ok_runs(data.counted(machine, cell.id), runtime)
                    if (one := parts(run, epochs))
                ]
                if found:
                    means = [fmean(values) for values in zip(*found, strict=True)]
                    lines.append((data.place_name(machine, cell), runtime, len(found), means))
        if not lines:
            return style.empty(data, TITLE, "No valid run, so there is no time to divide.")
        return _draw(data, lines)


def parts(run: Row, epochs: Epochs) -> list[float] | None:
    """Return the seconds of ``PARTS`` of one run, or None when a time is not recorded; they add up to its total."""
    start, ready, total = run["seconds_to_start"], run["seconds_to_ready"], run["seconds_total"]
    if start is None or ready is None or total is None:
        return None
    of_run = epochs.get(run["run_id"], {})
    first = of_run.get(0, 0.0)
    steady = sum(value for epoch, value in of_run.items() if epoch > 0)
    return [start, ready - start, first, steady, max(0.0, total - ready - first - steady)]


def _draw(data: StudyData, lines: list[Line]) -> Figure:
    places = list(dict.fromkeys(place for place, _, _, _ in lines))
    drawn = style.figure((len(lines) + 1.3 * len(places)) * _LINE + 1.7)
    axes = drawn.subplots()
    _bars(axes, lines)
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name) for name, colour, hatch in PARTS
    ]
    style.head(drawn, TITLE, handles, columns=3)
    style.caption(
        drawn,
        data,
        "Means over the valid runs of the attempts that count (means, so that the parts add up to the whole); "
        "n: runs. Request to exit; evicting the page cache before the first epoch falls in the rest.",
    )
    return drawn


def _bars(axes: Axes, lines: list[Line]) -> None:
    y, place, labels = 0.0, "", []
    for name, runtime, number, means in lines:
        if name != place:
            y += 1.3 if place else 0.6
            axes.text(
                0,
                y - 0.8,
                name,
                transform=axes.get_yaxis_transform(),
                fontsize=8,
                fontweight="bold",
                va="center",
            )
            place = name
        left = 0.0
        for value, (_, colour, hatch) in zip(means, PARTS, strict=True):
            if value > 0:
                axes.barh(
                    y,
                    value,
                    left=left,
                    height=0.72,
                    color=colour,
                    hatch=hatch,
                    edgecolor="white",
                    linewidth=0.4,
                )
            left += value
        axes.annotate(
            f"{units.quantity(left, 's')} (n={number})",
            (left, y),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
        labels.append((y, runtime))
        y += 1
    axes.set_yticks([at for at, _ in labels], [label for _, label in labels])
    axes.set_ylim(y - 0.3, -0.9)
    axes.margins(x=0.12)
    axes.set_xlabel("seconds", fontsize=8)
    style.grid(axes, "x")
