"""Rule plot_ladder: what each step from the host to the container costs, as a waterfall, as SVG and PNG."""

from typing import TYPE_CHECKING, Any

from tare.analysis.figures import ladder
from tare.analysis.figures.rule import plot

if TYPE_CHECKING:
    snakemake: Any = None

plot(snakemake, ladder.draw)
