from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from tare import records


def run_row(**change: Any) -> dict[str, Any]:
    return {
        "run_id": "a",
        "study": "s",
        "cell": "c",
        "block": 1,
        "attempt": 1,
        "factors": {"n": "1"},
        **change,
    }


def test_a_misspelt_column_is_refused() -> None:
    with pytest.raises(records.RecordError, match=r"unknown column\(s\) blok; allowed: machine_id"):
        records.table([{"blok": 1}], records.RUNS)


def test_all_null_columns_keep_their_type_so_files_can_be_read_together(tmp_path: Path) -> None:
    """pandas#55731, arrow#2782: an all-null column of one file made a whole folder unreadable."""
    records.write(
        records.table([run_row(device_read_bytes=None, reasons=None)], records.RUNS), tmp_path / "a.parquet"
    )
    records.write(
        records.table([run_row(device_read_bytes=7, reasons=["x"])], records.RUNS), tmp_path / "b.parquet"
    )
    both = pyarrow.dataset.dataset(tmp_path).to_table()
    assert both.column("device_read_bytes").to_pylist() == [None, 7]
    frame = pd.read_parquet(tmp_path)
    assert sorted(frame["block"]) == [1, 1]
    for name in ("a", "b"):
        assert pq.read_schema(tmp_path / f"{name}.parquet").field("device_read_bytes").type == pa.int64()


def test_a_table_comes_back_with_its_schema_and_version(tmp_path: Path) -> None:
    path = tmp_path / "deep/runs.parquet"
    records.write(records.table([run_row()], records.RUNS), path)
    back = records.read(path, records.RUNS)
    assert back.schema.metadata[records.VERSION_KEY] == b"1"
    assert back.to_pylist()[0]["factors"] == [("n", "1")]
    assert [child.name for child in path.parent.iterdir()] == ["runs.parquet"]


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        records.write(records.table([run_row()], records.RUNS), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b"PAR1 not at all"), "not a readable Parquet file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "not a readable Parquet file"),
        (lambda path: path.unlink(), "not a readable Parquet file"),
        (lambda path: pq.write_table(pa.table({"x": [1]}), path), "schema version none"),
        (
            lambda path: pq.write_table(
                pa.table({"x": [1]}).replace_schema_metadata({records.VERSION_KEY: b"1"}), path
            ),
            "its columns differ",
        ),
        (
            lambda path: pq.write_table(
                records.table([], records.RUNS).replace_schema_metadata({records.VERSION_KEY: b"99"}), path
            ),
            "schema version 99, this Tare reads 1",
        ),
    ],
)
def test_a_spoilt_file_is_refused_with_its_name_and_the_remedy(
    tmp_path: Path, spoil: Any, message: str
) -> None:
    path = tmp_path / "runs.parquet"
    records.write(records.table([run_row()], records.RUNS), path)
    spoil(path)
    with pytest.raises(records.RecordError, match=message) as refusal:
        records.read(path, records.RUNS)
    assert str(path) in str(refusal.value)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.parquet"
    records.write(records.table([run_row()], records.RUNS), path)
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records.pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        records.write(records.table([], records.RUNS), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_blocks_are_split_into_runs_and_samples() -> None:
    sample = {
        "phase": "steady",
        "epoch": None,
        "index": 0,
        "metric": "hpl_flops",
        "unit": "flop/s",
        "value": 2.0,
    }
    block = records.table([run_row(samples=[sample]), run_row(run_id="b", samples=[])], records.BLOCK)
    runs, samples = records.split_blocks([block, block])
    assert runs.schema.names == records.RUNS.names
    assert [row["run_id"] for row in runs.to_pylist()] == ["a", "b", "a", "b"]
    assert [row["value"] for row in samples.to_pylist()] == [2.0, 2.0]
    assert samples.to_pylist()[0] == {
        **dict.fromkeys(records.SAMPLES.names),
        **{name: run_row()[name] for name in ("run_id", "study", "cell", "block", "attempt")},
        **sample,
    }
