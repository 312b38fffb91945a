"""Rule plot_overhead: cost of every pair with its interval, the margin and the control, as SVG and PNG."""

from typing import TYPE_CHECKING, Any

from tare.analysis.figures import overhead
from tare.analysis.figures.rule import plot

if TYPE_CHECKING:
    snakemake: Any = None

plot(snakemake, overhead.draw)
