"""Block files → the tables ``runs`` and ``samples``, in one order whatever order the files come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from tare import records

_RUN_ORDER = ("study", "cell", "machine_id", "block", "attempt", "position", "runtime", "role", "run_id")
_SAMPLE_ORDER = (
    *("study", "cell", "machine_id", "block", "attempt", "runtime", "role", "run_id"),
    *("phase", "metric", "epoch", "index", "unit", "value"),
)


def collect(paths: Iterable[Path]) -> tuple[pa.Table, pa.Table]:
    """Return (``runs``, ``samples``) of the block files, sorted; the same blocks give bit-identical tables.

    Raises ``RecordError`` when a file cannot be read, when blocks of two studies are mixed, or a run appears twice.
    """
    files = sorted(Path(path) for path in paths)
    blocks = [records.read(path, records.BLOCK) for path in files]
    _refuse_mixture(files, blocks)
    runs, samples = records.split_blocks(blocks)
    return _sorted(runs, _RUN_ORDER), _sorted(samples, _SAMPLE_ORDER)


def _sorted(table: pa.Table, order: Iterable[str]) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in order]).combine_chunks()


def _refuse_mixture(files: list[Path], blocks: list[pa.Table]) -> None:
    studies: dict[str, Path] = {}
    seen: Counter[str] = Counter()
    for path, block in zip(files, blocks, strict=True):
        for study in block.column("study").to_pylist():
            studies.setdefault(str(study), path)
        for run_id in block.column("run_id").to_pylist():
            seen[str(run_id)] += 1
            if seen[str(run_id)] > 1:
                raise records.RecordError(
                    f"{path}: run {run_id} is in the tables already; "
                    "each block file may be given once: delete the copy"
                )
    if len(studies) > 1:
        found = "; ".join(f"{study} in {path}" for study, path in sorted(studies.items()))
        raise records.RecordError(
            f"blocks of {len(studies)} studies cannot be merged ({found}); give the blocks of one study"
        )
