"""The Arrow schemas of every table Tare writes, in one place.

Format history (``SCHEMA_VERSION`` stands in the metadata of every file):

1. first version: ``runs``, ``samples``, ``comparisons``; a block file is ``runs`` with its samples nested.

Units are SI base units and part of the column's name. A column that is null in every row keeps its type,
so files with and without, say, a device counter can be read as one data set.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_VERSION = 1
VERSION_KEY = b"tare.schema_version"

RUN_STATUSES = ("ok", "invalid", "failed", "skipped")
ROLES = ("measure", "control")
VERDICTS = ("equivalent", "slower", "faster", "inconclusive", "not comparable")

_text = pa.string()
_texts = pa.list_(pa.field("item", _text))
_map = pa.map_(_text, _text)
_time = pa.timestamp("us", tz="UTC")

RUNS = pa.schema(
    [
        ("machine_id", _text),
        ("node", _text),
        ("study", _text),
        ("cell", _text),
        ("workload", _text),
        ("stack", _text),
        ("factors", _map),
        ("runtime", _text),
        ("role", _text),
        ("block", pa.int64()),
        ("attempt", pa.int64()),
        ("position", pa.int64()),
        ("run_id", _text),
        ("started_at", _time),
        ("status", _text),
        ("reasons", _texts),
        ("flags", _texts),
        ("seconds_to_start", pa.float64()),
        ("seconds_to_ready", pa.float64()),
        ("seconds_total", pa.float64()),
        ("cpu_seconds", pa.float64()),
        ("max_rss_bytes", pa.int64()),
        ("device_read_bytes", pa.int64()),
        ("resident_before", pa.float64()),
        ("image_digest", _text),
        ("worker_sha256", _text),
        ("lock_sha256", _text),
        ("fingerprint", _text),
    ]
)

_SAMPLE_VALUES: list[tuple[str, pa.DataType]] = [
    ("phase", _text),
    ("epoch", pa.int64()),
    ("index", pa.int64()),
    ("metric", _text),
    ("unit", _text),
    ("value", pa.float64()),
]

SAMPLES = pa.schema(
    [
        ("run_id", _text),
        ("machine_id", _text),
        ("study", _text),
        ("cell", _text),
        ("workload", _text),
        ("runtime", _text),
        ("role", _text),
        ("block", pa.int64()),
        ("attempt", pa.int64()),
        *_SAMPLE_VALUES,
    ]
)

#: One block: its runs, each with the samples nested, so that a block is one file and one atomic rename.
BLOCK = RUNS.append(pa.field("samples", pa.list_(pa.field("item", pa.struct(_SAMPLE_VALUES)))))

COMPARISONS = pa.schema(
    [
        ("machine_id", _text),
        ("study", _text),
        ("cell", _text),
        ("workload", _text),
        ("stack", _text),
        ("factors", _map),
        ("phase", _text),
        ("metric", _text),
        ("unit", _text),
        ("contrast", _text),
        ("level", _text),
        ("reference", _text),
        ("treatment", _text),
        ("blocks", pa.int64()),
        ("ratio", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("margin", pa.float64()),
        ("p_equivalence", pa.float64()),
        ("p_difference", pa.float64()),
        ("verdict", _text),
        ("parity", _text),
        ("parity_fields", _texts),
        ("noise_ratio", pa.float64()),
        ("noise_ci_low", pa.float64()),
        ("noise_ci_high", pa.float64()),
        ("blocks_needed", pa.int64()),
    ]
)


class RecordError(ValueError):
    """A table that cannot be read or merged; the message names the file, the column and the remedy."""


def table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return ``rows`` as a table of exactly ``schema``, its version in the metadata.

    Raises ``RecordError`` for a key that is not a column: a misspelt column must not vanish silently.
    """
    rows = list(rows)
    names = set(schema.names)
    for row in rows:
        unknown = sorted(set(row) - names)
        if unknown:
            raise RecordError(f"unknown column(s) {', '.join(unknown)}; allowed: {', '.join(schema.names)}")
    stamped = schema.with_metadata({VERSION_KEY: str(SCHEMA_VERSION).encode()})
    return pa.Table.from_pylist([dict(row) for row in rows], schema=stamped)


def write(data: pa.Table, path: Path) -> None:
    """Write ``data`` to ``path`` whole or not at all: a temporary file beside it, fsync, atomic rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            pq.write_table(data, file, compression="zstd", store_schema=True)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # noqa: PTH101 (mkstemp gave 0600)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the table at ``path``; raises ``RecordError`` unless it has exactly ``schema`` and its version."""
    try:
        data = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise RecordError(
            f"{path}: not a readable Parquet file ({error}); delete it to have it made again"
        ) from None
    version = (data.schema.metadata or {}).get(VERSION_KEY, b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise RecordError(
            f"{path}: schema version {version}, this Tare reads {SCHEMA_VERSION}; "
            "delete it to have it made again, or read it with the Tare that wrote it"
        )
    if not data.schema.remove_metadata().equals(schema.remove_metadata()):
        raise RecordError(f"{path}: its columns differ from the schema; delete it to have it made again")
    return data


def split_blocks(blocks: Sequence[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Return the ``runs`` and ``samples`` tables of some blocks, in the order given."""
    runs: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    shared = [name for name in SAMPLES.names if name in RUNS.names]
    for block in blocks:
        for row in block.to_pylist():
            nested = row.pop("samples") or []
            runs.append(row)
            samples.extend({name: row[name] for name in shared} | sample for sample in nested)
    return table(runs, RUNS), table(samples, SAMPLES)
