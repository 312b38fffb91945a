"""Rule verify_study: ends with an error that lists what failed, is invalid or missing; else the study is verified."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.analysis import verify
from tare.analysis.study_data import StudyData

if TYPE_CHECKING:
    snakemake: Any = None


def main() -> None:
    """Fail with one message, or leave the stamp to Snakemake."""
    data = StudyData.of_rule(snakemake)
    message = verify.message(data, snakemake.input.page)
    Path(snakemake.log[0]).write_text(f"{message or 'whole: ' + data.progress()}\n", encoding="utf-8")
    if message:
        sys.exit(message)


main()
