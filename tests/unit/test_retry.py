"""Which results count as failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tare import records, retry


def status(results: Path, name: str, text: str) -> None:
    (results / name).parent.mkdir(parents=True, exist_ok=True)
    (results / name).write_text(text)


def block(results: Path, name: str, *runs: tuple[int, str]) -> None:
    rows = [{"attempt": attempt, "status": status} for attempt, status in runs]
    records.write(records.table(rows, records.BLOCK), results / name)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for form, said in (("image", "failed"), ("rootfs", "ok"), ("venv", "skipped")):
        status(tmp_path, f"software/torch/{form}.json", json.dumps({"status": said}))
    status(tmp_path, "software/base/base.json", '{"status": "failed"}')
    status(tmp_path, "software/base/debs.json", '{"status": "ok"}')
    status(tmp_path, "data/mnist/dataset.json", '{"status": "failed"}')
    status(tmp_path, "software/hpc/image.json", '{"status":')
    block(tmp_path, "quick/blocks/startup/1.parquet", (1, "ok"), (1, "skipped"))
    block(tmp_path, "quick/blocks/startup/2.parquet", (1, "ok"), (1, "failed"))
    block(tmp_path, "quick/blocks/hpcc/1.parquet", (1, "invalid"), (2, "ok"))
    block(tmp_path, "quick/blocks/hpcc/2.parquet", (1, "ok"), (2, "invalid"))
    block(tmp_path, "other/blocks/hpcc/1.parquet")
    (tmp_path / "other/blocks/hpcc/2.parquet").write_text("half a row")
    return tmp_path


def names(results: Path, paths: list[Path]) -> list[str]:
    return [str(path.relative_to(results)) for path in paths]


def test_status_files(results: Path) -> None:
    failed = [
        "software/base/base.json",
        "software/hpc/image.json",
        "software/torch/image.json",
        "data/mnist/dataset.json",
    ]
    assert names(results, retry.status_files(results, {"failed"})) == failed
    skipped = [*failed[:3], "software/torch/venv.json", failed[3]]
    assert names(results, retry.status_files(results, {"failed", "skipped"})) == skipped


def test_blocks_are_judged_by_their_last_attempt(results: Path) -> None:
    assert names(results, retry.blocks(results)) == [
        "other/blocks/hpcc/2.parquet",
        "quick/blocks/hpcc/2.parquet",
        "quick/blocks/startup/2.parquet",
    ]


def test_remove_says_what(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = results / "quick/blocks/startup/2.parquet"
    assert retry.remove([path]) == 1
    assert not path.exists()
    assert capsys.readouterr().out == f"retry: {path}\n"


def test_nothing_there(tmp_path: Path) -> None:
    assert retry.status_files(tmp_path, {"failed"}) == []
    assert retry.blocks(tmp_path) == []
