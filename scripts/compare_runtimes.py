"""Rule compare_runtimes: runs and samples → tables/comparisons.parquet."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare import records
from tare.analysis.compare import as_table, compare
from tare.config import Study

if TYPE_CHECKING:
    snakemake: Any = None


def main() -> None:
    """Compare every configured pair and say in the log how many got which verdict."""
    study = Study.model_validate_json(snakemake.params.study)
    runs = records.read(Path(snakemake.input.runs), records.RUNS)
    samples = records.read(Path(snakemake.input.samples), records.SAMPLES)
    table = as_table(study, compare(study, runs, samples))
    records.write(table, Path(snakemake.output[0]))
    counts = sorted(Counter(table.column("verdict").to_pylist()).items())
    text = ", ".join(f"{number} {verdict}" for verdict, number in counts)
    Path(snakemake.log[0]).write_text(f"{table.num_rows} comparisons: {text or 'none'}\n", encoding="utf-8")


main()
