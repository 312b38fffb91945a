"""Rule plot_epochs: first epoch against steady epochs, as SVG and PNG."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.analysis.figures import epochs, style
from tare.analysis.study_data import StudyData
from tare.config import Study

if TYPE_CHECKING:
    snakemake: Any = None


def main() -> None:
    """Draw the figure from the tables."""
    source = snakemake.input
    study = Study.model_validate_json(snakemake.params.study)
    data = StudyData.load(study, Path(source.runs), Path(source.samples), Path(source.comparisons))
    style.save(epochs.draw(data), Path(snakemake.output.svg), Path(snakemake.output.png))
    Path(snakemake.log[0]).write_text(f"drawn from {data.progress()}\n", encoding="utf-8")


main()
