"""Rule prepare_data: a data set, verified and copied from the user's folder, or generated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    snakemake: Any = None

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from tare.data import prepare


def main() -> None:
    """Prepare the data set of the wildcard; say in the log what it is."""
    folder = snakemake.params.folder
    target = Path(snakemake.output[0]).parent
    facts = prepare(snakemake.wildcards.dataset, target, Path(folder) if folder else None)
    summary = "; ".join(facts["reasons"]) or f"{facts['samples']} samples, sha256 {facts['sha256']}"
    Path(snakemake.log[0]).write_text(
        f"{facts['dataset']}: {facts['source']}, {facts['status']}: {summary}\n"
    )


main()
