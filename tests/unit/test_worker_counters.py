"""What the kernel counts, parsed from its own texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.worker import counters

STAT = "cpu  100 20 30 4000 50 6 4 10 77 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nctxt 5\n"


def test_cpu_times_sum_without_guests() -> None:
    assert counters.cpu_times(STAT, ticks=100) == {
        "busy_seconds": 1.6,
        "idle_seconds": 40.5,
        "steal_seconds": 0.1,
        "softirq_seconds": 0.04,
    }


def test_swap_pressure_and_reads(tmp_path: Path) -> None:
    assert counters.swap_pages("nr_x 1\npswpin 12\npswpout 34\n") == {
        "swap_in_pages": 12,
        "swap_out_pages": 34,
    }
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=8012245\nfull avg10=0.00 total=5\n"
    assert counters.pressure_seconds(text) == 8.012245
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/io").write_text("rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\n")
    assert counters.device_read_bytes(str(tmp_path)) == 4096


@pytest.mark.parametrize(
    ("text", "expected"),
    [("rchar: 1\nwrite_bytes: 4096\n", 4096), ("rchar: 1\n", None), ("write_bytes: x\n", None), (None, None)],
)
def test_written_bytes_of_the_kernel(tmp_path: Path, text: str | None, expected: int | None) -> None:
    if text is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/io").write_text(text)
    assert counters.device_write_bytes(str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(3, 10, 7), (3, 3, 0), (None, 10, None), (3, None, None), (None, None, None)],
)
def test_the_increase_of_a_counter(before: int | None, after: int | None, expected: int | None) -> None:
    assert counters.increase(before, after) == expected


def test_what_the_kernel_does_not_tell_is_none(tmp_path: Path) -> None:
    found = counters.counters(str(tmp_path))
    own = {"own_cpu_seconds", "major_faults"}
    assert {key for key, value in found.items() if value is not None} == own
    assert counters.device_read_bytes(str(tmp_path)) is None
    assert counters.usage(str(tmp_path)).device_read_bytes is None


def test_counters_of_this_machine_are_totals_that_grow() -> None:
    before, after = counters.counters(), counters.counters()
    assert list(before) == list(after)
    for key, value in before.items():
        later = after[key]
        assert value is None or (later is not None and later >= value >= 0), key
    assert counters.max_rss_bytes() > 1 << 20
