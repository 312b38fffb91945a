"""Rule write_report: tables and figures → report.html and summary.md, and the summary on the terminal."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.analysis import publish, report, terminal
from tare.analysis.study_data import StudyData

if TYPE_CHECKING:
    snakemake: Any = None


def main() -> None:
    """Write both files; the log holds what the terminal shows."""
    source = snakemake.input
    data = StudyData.of_rule(snakemake)
    figures = {name: Path(getattr(source, name)).read_text(encoding="utf-8") for name in report.FIGURES}
    publish.write(data, figures, Path(snakemake.output.page), Path(snakemake.output.summary))
    text = terminal.terminal(data, snakemake.output.page)
    Path(snakemake.log[0]).write_text(text, encoding="utf-8")
    print(f"\n{text}", file=sys.stderr, flush=True)


main()
