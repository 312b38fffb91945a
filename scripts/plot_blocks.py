"""Rule plot_blocks: ratio of every block, as SVG and PNG."""

from typing import TYPE_CHECKING, Any

from tare.analysis.figures import blocks
from tare.analysis.figures.rule import plot

if TYPE_CHECKING:
    snakemake: Any = None

plot(snakemake, blocks.draw)
