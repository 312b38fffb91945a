"""Block files to tables: exact rows, one order, one study, and the same bytes every time."""

import random
from pathlib import Path

import pytest
import synthetic_study as synthetic

from tare import records
from tare.analysis.collect import collect

RECORDED = Path(__file__).parents[1] / "data" / "blocks"


def write_tables(paths, folder):
    runs, samples = collect(paths)
    records.write(runs, folder / "runs.parquet")
    records.write(samples, folder / "samples.parquet")
    return [(folder / name).read_bytes() for name in ("runs.parquet", "samples.parquet")]


def test_bit_identical_from_shuffled_files_in_another_folder(tmp_path):
    blocks = synthetic.standard_blocks(synthetic.study())
    first = synthetic.write_blocks(blocks, tmp_path / "a")
    second = synthetic.write_blocks(dict(reversed(blocks.items())), tmp_path / "other" / "place")
    random.Random(1).shuffle(second)
    assert write_tables(first, tmp_path / "x") == write_tables(second, tmp_path / "y")


def test_rows_are_all_there_in_order(tmp_path):
    of = synthetic.study()
    runs, samples = collect(synthetic.write_blocks(synthetic.standard_blocks(of), tmp_path))
    # 20 blocks of 4 runs, and 2 further attempts
    assert runs.num_rows == 20 * 4 + 2 * 4
    places = list(
        zip(*(runs.column(n).to_pylist() for n in ("cell", "block", "attempt", "position")), strict=True)
    )
    assert places == sorted(places)
    assert samples.schema.remove_metadata() == records.SAMPLES
    # failed and skipped runs have no samples: 1 + 5 of them
    assert len(set(samples.column("run_id").to_pylist())) == runs.num_rows - 6


def test_recorded_blocks_still_read_and_equal_what_the_script_makes():
    """tests/data/blocks was written by tests/unit/synthetic_study.py when schema version 1 was made.

    A factor that a workload got later is in no block of before.
    """
    of = synthetic.study()
    for cell in of.expand()[:2]:
        for number in (1, 2):
            stored = records.read(RECORDED / cell.id / f"{number}.parquet", records.BLOCK)
            made = synthetic.standard_blocks(of)[cell.id, number]
            assert stored.drop_columns(["factors"]).equals(made.drop_columns(["factors"]))


def test_no_blocks_give_empty_tables_of_the_schema():
    runs, samples = collect([])
    assert (runs.num_rows, samples.num_rows) == (0, 0)
    assert runs.schema.remove_metadata() == records.RUNS


def test_null_columns_keep_their_type(tmp_path):
    def without(run):
        run.update(resident_before=None, max_rss_bytes=None, image_digest=None, device_read_bytes=None)

    of = synthetic.study()
    block = synthetic.block(of, of.expand()[0], 1, change=without)
    runs, _ = collect(synthetic.write_blocks({("startup", 1): block}, tmp_path))
    assert runs.column("resident_before").null_count == runs.num_rows
    assert runs.schema.remove_metadata() == records.RUNS


def test_a_block_given_twice_is_refused(tmp_path):
    of = synthetic.study()
    block = synthetic.block(of, of.expand()[0], 1)
    paths = synthetic.write_blocks({("startup", 1): block, ("copy", 1): block}, tmp_path)
    with pytest.raises(records.RecordError, match=r"is in the tables already; .*delete the copy"):
        collect(paths)


def test_blocks_of_two_studies_are_refused(tmp_path):
    blocks = {}
    for name in ("one", "two"):
        of = synthetic.study(study=name)
        blocks[name, 1] = synthetic.block(of, of.expand()[0], 1)
    with pytest.raises(records.RecordError, match=r"2 studies cannot be merged \(one in .*; two in .*\)"):
        collect(synthetic.write_blocks(blocks, tmp_path))
