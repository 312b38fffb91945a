"""One comparison's statistics against hand-computed numbers and against scipy's own tests."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from tare.analysis.statistics import blocks_needed, corrected, estimate

LOGS = [0.01, 0.03, 0.02, 0.00, 0.04]
ratios = st.lists(st.floats(min_value=-0.5, max_value=0.5), min_size=2, max_size=12)


def test_estimate_by_hand():
    # mean 0.02, sd sqrt(0.001/4) = 0.0158114, error sd/sqrt 5 = 0.00707107, t(0.95, 4) = 2.131847
    found = estimate(LOGS, 0.05)
    assert found.blocks == 5
    assert found.ratio == pytest.approx(math.exp(0.02), abs=1e-12)
    assert found.ci_low == pytest.approx(math.exp(0.02 - 2.1318467863 * 0.00707106781), rel=1e-9)
    assert found.ci_high == pytest.approx(math.exp(0.02 + 2.1318467863 * 0.00707106781), rel=1e-9)
    assert found.log_sd == pytest.approx(0.0158113883)


def test_estimate_agrees_with_scipy():
    found = estimate(LOGS, 0.05)
    assert found.p_difference == pytest.approx(stats.ttest_1samp(LOGS, 0).pvalue)
    bound = math.log1p(0.05)
    below = stats.ttest_1samp(LOGS, bound, alternative="less").pvalue
    above = stats.ttest_1samp(LOGS, -bound, alternative="greater").pvalue
    assert found.p_equivalence == pytest.approx(max(below, above))


def test_two_blocks_are_enough_and_one_is_not():
    assert estimate([0.0, 0.02], 0.05).blocks == 2
    with pytest.raises(ValueError, match=r"at least two finite log ratios, got \[0.0\]"):
        estimate([0.0], 0.05)
    with pytest.raises(ValueError, match="at least two finite"):
        estimate([0.0, math.nan], 0.05)


@pytest.mark.parametrize(
    ("value", "p_equivalence", "p_difference"),
    [(0.0, 0.0, 1.0), (0.01, 0.0, 0.0), (0.2, 1.0, 0.0), (-0.2, 1.0, 0.0), (math.log1p(0.05), 1.0, 0.0)],
)
def test_without_spread_the_interval_is_the_point(value, p_equivalence, p_difference):
    found = estimate([value] * 3, 0.05)
    assert found.ci_low == found.ci_high == found.ratio == math.exp(value)
    assert (found.p_equivalence, found.p_difference) == (p_equivalence, p_difference)
    assert found.log_sd == 0


def test_benjamini_hochberg_by_hand():
    # sorted 0.01 0.02 0.03 0.04 of m=4: 0.04, 0.04, 0.04, 0.04
    assert corrected([0.04, None, 0.01, 0.03, 0.02]) == pytest.approx([0.04, None, 0.04, 0.04, 0.04])
    # 0.001·3/1 = 0.003; 0.4·3/2 = 0.6; 0.5·3/3 = 0.5, and 0.6 is cut to 0.5
    assert corrected([0.5, 0.001, 0.4]) == pytest.approx([0.5, 0.003, 0.5])
    assert corrected([None, None]) == [None, None]
    assert corrected([]) == []


def test_blocks_needed_reaches_the_power_it_promises():
    # no true difference, sd 0.04: the exact TOST power crosses 80 % at the number found
    needed = blocks_needed(0.0, 0.04, 0.05, at_least=5)
    bound = math.log1p(0.05)

    def power(n):
        t, ncp = stats.t.ppf(0.95, n - 1), bound * math.sqrt(n) / 0.04
        return 2 * stats.nct.sf(t, n - 1, ncp) - 1

    assert power(needed) >= 0.8 > power(needed - 1)
    assert needed == 8


def test_blocks_needed_for_a_difference_agrees_with_the_t_test_power():
    needed = blocks_needed(0.10, 0.10, 0.05, at_least=3)

    def power(n):
        return stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, math.sqrt(n))

    assert power(needed) >= 0.8 > power(needed - 1)
    assert needed == 10  # the textbook number for an effect of one standard deviation


def test_blocks_needed_knows_its_limits():
    assert blocks_needed(math.log1p(0.05), 5.0, 0.05, at_least=5) is None  # beyond 10 000
    assert blocks_needed(0.0, 0.0, 0.05, at_least=5) is None  # no spread: more blocks change nothing
    assert blocks_needed(1.0, 0.01, 0.05, at_least=7) == 8  # decided at once, but never fewer than there are
    assert blocks_needed(-0.03, 0.05, 0.05, at_least=5) == blocks_needed(0.03, 0.05, 0.05, at_least=5)
    assert blocks_needed(0.0, 1.5, 0.05, at_least=5) > 5000  # the far end of the noncentral t works too


@given(ratios)
def test_interval_contains_the_ratio_and_p_values_are_probabilities(logs):
    found = estimate(logs, 0.05)
    assert found.ci_low <= found.ratio * (1 + 1e-12)
    assert found.ratio <= found.ci_high * (1 + 1e-12)
    assert 0 <= found.p_equivalence <= 1
    assert 0 <= found.p_difference <= 1


@given(ratios)
def test_a_over_b_and_b_over_a_are_reciprocal(logs):
    one, other = estimate(logs, 0.05), estimate([-value for value in logs], 0.05)
    assert one.ratio * other.ratio == pytest.approx(1, rel=1e-12)
    assert one.ci_low * other.ci_high == pytest.approx(1, rel=1e-9)
    assert one.p_equivalence == pytest.approx(other.p_equivalence, abs=1e-9)
    assert one.p_difference == pytest.approx(other.p_difference, abs=1e-9)


@given(ratios, st.randoms())
def test_order_of_blocks_changes_no_bit(logs, random_):
    shuffled = list(logs)
    random_.shuffle(shuffled)
    assert estimate(shuffled, 0.05) == estimate(logs, 0.05)


@given(ratios)
def test_interval_inside_the_margin_is_the_same_as_tost_at_five_percent(logs):
    found = estimate(logs, 0.05)
    assume(abs(found.p_equivalence - 0.05) > 1e-9)
    inside = found.ci_low > 1 / 1.05 and found.ci_high < 1.05
    assert inside == (found.p_equivalence < 0.05)
