"""Rule verify_study: ends with an error that lists what failed, is invalid or missing; else the study is verified."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.analysis import verify
from tare.analysis.study_data import StudyData
from tare.config import Study

if TYPE_CHECKING:
    snakemake: Any = None


def main() -> None:
    """Fail with one message, or leave the stamp to Snakemake."""
    source = snakemake.input
    study = Study.model_validate_json(snakemake.params.study)
    data = StudyData.load(study, Path(source.runs), Path(source.samples), Path(source.comparisons))
    message = verify.message(data, source.page)
    Path(snakemake.log[0]).write_text(f"{message or 'whole: ' + data.progress()}\n", encoding="utf-8")
    if message:
        sys.exit(message)


main()
