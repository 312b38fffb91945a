from __future__ import annotations

from pathlib import Path

import pytest

from tare import progress, records


def block(path: Path, seconds: float) -> None:
    table = records.table([], records.BLOCK)
    stamp = {**table.schema.metadata, progress.SECONDS_KEY: str(seconds).encode()}
    records.write(table.replace_schema_metadata(stamp), path)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (45, "45 s"), (89.4, "89 s"), (400, "7 min"), (3600, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_what_is_left_is_estimated_from_what_was_measured(tmp_path: Path) -> None:
    block(tmp_path / "hpcc/1.parquet", 20.0)
    block(tmp_path / "hpcc/2.parquet", 30.0)
    (tmp_path / "hpcc/3.parquet").write_bytes(b"cut off")
    cells = {"hpcc": "hpcc", "startup": "startup"}
    done, total, seconds = progress.remaining(tmp_path, cells, 4, runs=4)
    assert (done, total) == (2, 8)
    # two blocks of hpcc at their mean, four of startup at its expected 0.5 s × 4 runs
    assert seconds == pytest.approx(2 * 25.0 + 4 * 0.5 * 4)


def test_the_line_says_how_many_and_how_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(progress.PLAN_VARIABLE, '{"cells": {"hpcc": "hpcc"}, "blocks": 2, "runs": 4}')
    for number, rest in ((1, "1 of 2 blocks, about 20 s left"), (2, "2 of 2 blocks, all measured")):
        path = tmp_path / f"hpcc/{number}.parquet"
        block(path, 20.0)
        progress.say_done(path, "hpcc", number)
        assert capsys.readouterr().err == f"[tare] hpcc block {number} of 2: done; {rest}\n"
