"""How long it takes until the first instruction, and until the work can begin, in each runtime and cell."""

from __future__ import annotations

from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from tare.analysis import units
from tare.analysis.figures import style
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData, ok_runs

TITLE = "Start-up: from the launch request"
#: place, runtime, runs
Line = tuple[str, str, list[Row]]
_LINE = 0.2  # inches
#: digits of the ticks of an axis that spans up to this factor
_TICKS = ((30.0, (1, 2, 5)), (1000.0, (1, 3)), (float("inf"), (1,)))
_PARTS = (
    ("seconds_to_start", "to the first instruction"),
    ("seconds_to_ready", "to ready (imports done, model built)"),
)


def draw(data: StudyData) -> Figure:
    """Return two panels, start and ready; one line for each cell and runtime with every valid run as a dot."""
    with style.context():
        lines: list[Line] = [
            (data.place_name(machine, cell), runtime, runs)
            for machine, cell in data.places()
            for runtime in data.runtimes_of(cell)
            if (runs := ok_runs(data.counted(machine, cell.id), runtime))
        ]
        if not lines:
            return style.empty(data, TITLE, "No valid run: no process of this study started and ended well.")
        return _draw(data, lines)


def _draw(data: StudyData, lines: list[Line]) -> Figure:
    places = list(dict.fromkeys(place for place, _, _ in lines))
    drawn = style.figure((len(lines) + 1.6 * len(places)) * _LINE + 1.6)
    for index, (axes, (column, words)) in enumerate(
        zip(drawn.subplots(1, 2, sharey=True), _PARTS, strict=True)
    ):
        _panel(axes, data, lines, column, named=index == 0)
        axes.set_title(words, fontsize=8.5)
    style.head(drawn, TITLE, [])
    style.caption(
        drawn,
        data,
        "Every valid run of the attempts that count; the bar and the number are the median. Logarithmic axis. "
        "Both times use the clock that host and containers share.",
    )
    return drawn


def _panel(axes: Axes, data: StudyData, lines: list[Line], column: str, named: bool) -> None:
    y, place, labels = 0.0, "", []
    for name, runtime, runs in lines:
        if name != place:
            y += 1.6 if place else 0.8
            axes.text(
                0,
                y - 0.85,
                name if named else "",
                transform=axes.get_yaxis_transform(),
                fontsize=7.5,
                fontweight="bold",
                va="center",
            )
            place = name
        colour, marker, _ = style.runtime_style(data, runtime)
        values = [run[column] for run in runs if run[column] is not None and run[column] > 0]
        if values:
            axes.plot(values, [y] * len(values), marker=marker, ms=5, ls="", color=colour, alpha=0.45, mew=0)
            middle = median(values)
            axes.plot([middle, middle], [y - 0.38, y + 0.38], color="#111111", lw=1.4)
            axes.text(
                1.01,
                y,
                units.quantity(middle, "s"),
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=7.5,
            )
        labels.append((y, runtime))
        y += 1
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    # fewer ticks before their labels touch each other
    digits = next(digits for span, digits in _TICKS if high <= span * low)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.round_quantity(value, "s")))
    axes.xaxis.set_major_locator(LogLocator(subs=digits, numticks=7))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks([at for at, _ in labels], [label for _, label in labels])
    axes.tick_params(labelsize=7.5)
    axes.set_ylim(y - 0.3, -0.6)
    style.grid(axes, "x")
