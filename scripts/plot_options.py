"""Rule plot_options: what options that are no default cost, as SVG and PNG."""

from typing import TYPE_CHECKING, Any

from tare.analysis.figures import options
from tare.analysis.figures.rule import plot

if TYPE_CHECKING:
    snakemake: Any = None

plot(snakemake, options.draw)
