"""What the figures share: colours and shapes for colour-blind people, captions, files that are the same each time."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tare.analysis import units
from tare.analysis.figures.compact import compact
from tare.analysis.pairing import CONTROL
from tare.analysis.study_data import StudyData

WIDTH = 8.0  # inches
GREY = "#6b6b6b"
BAND = "#e8eef4"
#: Okabe–Ito, each with a shape and a hatch of its own so that grey print keeps them apart
RUNTIME_STYLE: Mapping[str, tuple[str, str, str]] = {
    "host": ("#0072B2", "o", ""),
    "chroot": ("#009E73", "s", "//"),
    "docker": ("#D55E00", "^", "xx"),
    "chroot-userns": ("#56B4E9", "P", "\\\\"),
    "docker-pure": ("#CC79A7", "D", ".."),
    "docker-hardened": ("#E69F00", "v", "++"),
}
#: greys and muted hues with shapes that no runtime of its own has
VARIANT_STYLE = (
    ("#332288", "X", "oo"),
    ("#44AA99", "p", "**"),
    ("#882255", "<", "--"),
    ("#999933", ">", "||"),
    ("#AA4499", "h", "OO"),
    ("#555555", "8", "xo"),
)
PAIR_STYLE = (
    ("#D55E00", "o"),
    ("#0072B2", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)
#: a shape for every verdict, so that none is told by colour alone
VERDICT_MARK: Mapping[str, str] = {
    "equivalent": "≈",
    "slower": "▲",
    "faster": "▼",
    "inconclusive": "?",
    "not comparable": "✕",
}
CONTROL_STYLE = (GREY, "d")

_SETTINGS: Any = {  # Any: the stub knows only its own literal keys
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "legend.frameon": False,
    "svg.hashsalt": "tare",
    "svg.fonttype": "path",
    "hatch.linewidth": 0.6,
    "path.simplify": False,
}


def figure(height: float) -> Figure:
    """Return an empty figure of the common width; ``height`` in inches."""
    return Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")


def context() -> Any:
    """Return the context in which axes must be made and files saved, so that a user's matplotlibrc has no effect."""
    settings: Any = {**mpl.rcParamsDefault, **_SETTINGS, "backend": "agg"}
    return mpl.rc_context(settings)


def save(drawn: Figure, svg: Path, png: Path | None = None) -> None:
    """Write the figure as SVG, with ``png`` also as PNG, without dates or versions: equal data give equal bytes."""
    svg.parent.mkdir(parents=True, exist_ok=True)
    with context():
        FigureCanvasAgg(drawn)
        svg.write_text(as_svg(drawn), encoding="utf-8")
        if png:
            drawn.savefig(png, format="png", dpi=150, metadata={"Software": None})


def as_svg(drawn: Figure) -> str:
    """Return the figure as compact SVG; to be called inside ``context``."""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return compact(text.getvalue())


def runtime_style(data: StudyData, runtime: str) -> tuple[str, str, str]:
    """Return (colour, marker, hatch) of a runtime; a variant gets one of its own by its place in the config."""
    if runtime in RUNTIME_STYLE:
        return RUNTIME_STYLE[runtime]
    place = list(data.study.variants).index(runtime) if runtime in data.study.variants else 0
    return VARIANT_STYLE[place % len(VARIANT_STYLE)]


def pair_style(data: StudyData, treatment: str, reference: str) -> tuple[str, str]:
    """Return (colour, marker) of a pair by its place in reading order."""
    if treatment == CONTROL:
        return CONTROL_STYLE
    return PAIR_STYLE[data.pairs.index((treatment, reference)) % len(PAIR_STYLE)]


def pair_name(treatment: str, reference: str) -> str:
    """Return ``docker ÷ host``; for the control the runtime that ran twice."""
    return f"control: {reference} ÷ {reference}" if treatment == CONTROL else f"{treatment} ÷ {reference}"


def pair_handles(data: StudyData, line: bool = False) -> list[Line2D]:
    """Return the legend's entries of all pairs and the control."""
    pairs = data.compared_pairs or data.pairs
    controls = dict.fromkeys(cell.control for _, cell in data.places())
    return [
        handle(pair_style(data, treatment, reference), pair_name(treatment, reference), line)
        for treatment, reference in [*pairs, *((CONTROL, name) for name in controls)]
    ]


def handle(look: tuple[str, str], label: str, line: bool = False) -> Line2D:
    """Return one entry of a legend from its (colour, marker)."""
    colour, marker = look
    return Line2D([], [], color=colour, marker=marker, ms=5, ls="-" if line else "", label=label)


def margin_handle(margin: float) -> Patch:
    """Return the legend's entry of the band that shows the margin."""
    return Patch(color=BAND, label=f"margin {units.margin(margin)}")


def head(drawn: Figure, title: str, handles: list[Any], columns: int = 4) -> None:
    """Put the title and, below it, the legend above the axes."""
    if not handles:
        drawn.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        return
    drawn.legend(
        handles=handles,
        loc="outside upper left",
        ncols=columns,
        fontsize=8,
        handletextpad=0.5,
        title=title,
        alignment="left",
        title_fontproperties={"size": 11, "weight": "bold"},
    )


def caption(drawn: Figure, data: StudyData, text: str) -> None:
    """Put study, blocks and conditions below the axes: a figure cannot be separated from them."""
    study = data.study
    conditions = (
        f"Study {study.study} (seed {study.seed}): {data.progress()}, {study.blocks} blocks a cell planned; "
        f"machine {', '.join(map(_short, data.machines)) or 'unknown'}; threads: {study.threads}."
    )
    words = "\n".join(line for part in (text, conditions) for line in textwrap.wrap(part, 132))
    drawn.supxlabel(words, x=0.01, ha="left", fontsize=7.5, color="#333333")


def empty(data: StudyData, title: str, reason: str) -> Figure:
    """Return a figure that says in words why there is nothing to draw."""
    drawn = figure(1.8)
    axes = drawn.subplots()
    axes.set_axis_off()
    axes.text(0, 0.5, textwrap.fill(reason, 95), transform=axes.transAxes, va="center", color="#333333")
    head(drawn, title, [])
    caption(drawn, data, "No data for this figure.")
    return drawn


def ratio_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` round cost ratios between two log ratios: round percentages, or 1, 2, 5 … for factors."""
    for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        first, last = math.ceil(math.expm1(low) / step), math.floor(math.expm1(high) / step)
        if last - first < most:
            return [1 + number * step for number in range(first, last + 1) if 1 + number * step > 0]
    decades = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    factors = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    inside = [factor for factor in factors if low <= math.log(factor) <= high]
    return inside if len(inside) <= most else [factor for factor in inside if math.log10(factor).is_integer()]


def grid(axes: Axes, axis: str) -> None:
    """Draw faint grid lines behind the data."""
    axes.set_axisbelow(True)
    axes.grid(True, axis=axis, color="#dddddd", lw=0.6)  # type: ignore[arg-type]


def _short(machine_id: str) -> str:
    return machine_id[:12]
