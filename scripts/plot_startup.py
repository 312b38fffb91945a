"""Rule plot_startup: time to the first instruction and to ready, as SVG and PNG."""

from typing import TYPE_CHECKING, Any

from tare.analysis.figures import startup
from tare.analysis.figures.rule import plot

if TYPE_CHECKING:
    snakemake: Any = None

plot(snakemake, startup.draw)
