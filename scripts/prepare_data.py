"""Rule prepare_data: a data set, verified and copied from the user's folder, or generated."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.data import prepare

if TYPE_CHECKING:
    snakemake: Any = None

folder = snakemake.params.folder
facts = prepare(
    snakemake.wildcards.dataset, Path(snakemake.output.status).parent, Path(folder) if folder else None
)
summary = "; ".join(facts["reasons"]) or f"{facts['samples']} samples, sha256 {facts['sha256']}"
Path(snakemake.log[0]).write_text(
    f"{facts['dataset']}: {facts['source']}, {facts['status']}: {summary}\n", encoding="utf-8"
)
