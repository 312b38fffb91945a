"""The kept reference study is what its own tables give: nobody retouched it, and it is of the current report."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tare.analysis.compare import as_table, compare

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import keep_reference  # noqa: E402 (a script, found through the line above)

MEND = "mend with: python scripts/keep_reference.py"


KEPT = pytest.mark.parametrize("folder", keep_reference.kept(), ids=lambda folder: folder.name)
load = functools.cache(keep_reference.load)


def test_the_study_of_the_demo_is_kept() -> None:
    assert keep_reference.REFERENCE in keep_reference.kept()


@KEPT
def test_page_summary_and_figures_are_drawn_from_its_tables(folder: Path, tmp_path: Path) -> None:
    keep_reference.draw(load(folder), tmp_path)
    drawn = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    kept_files = {path.relative_to(folder) for path in (folder / "figures").iterdir()}
    assert kept_files == {path for path in drawn if path.parts[0] == "figures"}
    assert len(drawn) >= 9
    for path in drawn:
        kept = folder / path
        assert kept.read_bytes() == (tmp_path / path).read_bytes(), f"{path} differs; {MEND}"


@KEPT
def test_its_comparisons_follow_from_its_runs(folder: Path) -> None:
    data = load(folder)
    table = as_table(data.study, compare(data.study, data.runs_table, data.samples))
    assert table.equals(pq.read_table(folder / "tables/comparisons.parquet")), MEND


@KEPT
def test_it_names_no_path_of_the_machine_it_was_measured_on(folder: Path) -> None:
    for run in load(folder).runs:
        for place in ("/home/", "/tmp/tmp", "/work"):
            assert place not in run["fingerprint"], (place, run["runtime"])


def test_a_study_can_be_kept_and_loaded_again(tmp_path: Path) -> None:
    kept = keep_reference.load(keep_reference.REFERENCE)
    keep_reference.keep(kept.study, keep_reference.REFERENCE, tmp_path)
    again = keep_reference.load(tmp_path)
    assert (again.study, again.runs, again.comparisons) == (kept.study, kept.runs, kept.comparisons)
    assert (tmp_path / "machine.json").read_text() == (keep_reference.REFERENCE / "machine.json").read_text()
