"""What every rule plot_<name> does: tables in, one figure out as SVG and PNG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tare.analysis.figures import style
from tare.analysis.study_data import StudyData


def plot(snakemake: Any, draw: Callable[[StudyData], Figure]) -> None:
    """Draw a figure from the tables that ``snakemake.input`` names; the log says what it was drawn from."""
    data = StudyData.of_rule(snakemake)
    style.save(draw(data), Path(snakemake.output.svg), Path(snakemake.output.png))
    Path(snakemake.log[0]).write_text(f"drawn from {data.progress()}\n", encoding="utf-8")
