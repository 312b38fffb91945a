"""Rule collect_tables: block files → tables/runs.parquet and tables/samples.parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare import records
from tare.analysis.collect import collect

if TYPE_CHECKING:
    snakemake: Any = None


def main() -> None:
    """Collect the blocks and say in the log how many rows came together."""
    runs, samples = collect(map(Path, snakemake.input.blocks))
    records.write(runs, Path(snakemake.output.runs))
    records.write(samples, Path(snakemake.output.samples))
    Path(snakemake.log[0]).write_text(
        f"{len(snakemake.input.blocks)} blocks: {runs.num_rows} runs, {samples.num_rows} samples\n",
        encoding="utf-8",
    )


main()
