"""Rule plot_breakdown: where the time of a run goes, as SVG and PNG."""

from typing import TYPE_CHECKING, Any

from tare.analysis.figures import breakdown
from tare.analysis.figures.rule import plot

if TYPE_CHECKING:
    snakemake: Any = None

plot(snakemake, breakdown.draw)
