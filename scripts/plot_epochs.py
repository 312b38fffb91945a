"""Rule plot_epochs: first epoch against steady epochs, as SVG and PNG."""

from typing import TYPE_CHECKING, Any

from tare.analysis.figures import epochs
from tare.analysis.figures.rule import plot

if TYPE_CHECKING:
    snakemake: Any = None

plot(snakemake, epochs.draw)
