"""Numbers as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.analysis import units


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.0123, "s", "12.3 ms"),
        (0.9996, "s", "1.00 s"),  # rounding moves it to the next prefix
        (0.9994, "s", "999 ms"),
        (4.2e-7, "s", "420 ns"),
        (9.14e10, "flop/s", "91.4 Gflop/s"),
        (2.4e7, "update/s", "24.0 Mupdate/s"),
        (1e15, "B/s", "1000 TB/s"),  # no prefix beyond tera
        (1e-12, "s", "0.00100 ns"),
        (0.0, "s", "0 s"),
        (-0.5, "s", "−500 ms"),
        (float("nan"), "s", "–"),
        (None, "s", "–"),
        (3.0, "", "3.00"),
        (1000.0, "s", "1.00 ks"),
    ],
)
def test_quantity(value, unit, expected):
    assert units.quantity(value, unit) == expected


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.031, "+3.1 %"),
        (0.988, "−1.2 %"),
        (1.0043, "+0.43 %"),
        (1.0, "0.00 %"),
        (0.999999, "0.00 %"),  # never “−0.00 %”
        (1.00996, "+1.0 %"),
        (2.5, "+150.0 %"),
        (3.0, "× 3.00"),
        (15.24, "× 15.2"),
        (0.25, "× 0.250"),
        (None, "–"),
        (math.inf, "–"),
    ],
)
def test_percent(ratio, expected):
    assert units.percent(ratio) == expected


def test_interval():
    assert units.interval(0.988, 1.076) == "[−1.2 %, +7.6 %]"
    assert units.interval(None, 1.0) == "–"


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.0, "0"), (1.05, "+5 %"), (0.995, "−0.5 %"), (4.0, "× 4.0"), (0.25, "× 0.25")]
)
def test_axis_ratio(ratio, expected):
    assert units.axis_ratio(ratio) == expected


def test_probability_and_margin_and_count():
    assert [units.probability(p) for p in (0.0004, 0.0316, 1.0, None, math.nan)] == [
        "< 0.001",
        "0.032",
        "1.000",
        "–",
        "–",
    ]
    assert units.margin(0.05) == "±5 %"
    assert units.margin(0.025) == "±2.5 %"
    assert units.count(1, "block") == "1 block"
    assert units.count(0, "block") == "0 blocks"


@given(st.floats(min_value=1e-9, max_value=9.9e14))
def test_quantity_keeps_three_digits_of_the_value(value):
    text, _, unit = units.quantity(value, "x").partition(" ")
    scale = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1, "m": 1e-3, "µ": 1e-6, "n": 1e-9}[
        unit.removesuffix("x")
    ]
    assert 1 <= float(text) < 1000
    assert float(text) * scale == pytest.approx(value, rel=0.005001)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.05, "50 ms"), (1.0, "1 s"), (0.3, "300 ms"), (0.0025, "2.5 ms"), (2.0e-8, "20 ns"), (100.0, "100 s")],
)
def test_round_quantity(value, expected):
    assert units.round_quantity(value, "s") == expected


@pytest.mark.parametrize(
    ("parts", "expected"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_join(parts, expected):
    assert units.join(parts) == expected


def test_nobreak_keeps_numbers_units_and_intervals_together():
    text = units.nobreak("takes 21.2 ms, ±5 %, × 3.0 in [−1.2 %, × 4.0] of 3 blocks")
    assert text.split(" ") == [
        "takes",
        "21.2\u00a0ms,",
        "±5\u00a0%,",
        "×\u00a03.0",
        "in",
        "[−1.2\u00a0%,\u00a0×\u00a04.0]",
        "of",
        "3",
        "blocks",
    ]
