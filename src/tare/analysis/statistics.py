"""The statistics of one comparison, on log ratios over blocks. Pure functions; no table, no file.

Two one-sided tests (TOST): Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987) 657; the 90 % interval inside the margin
is the same as both one-sided tests at 5 %. Correction: Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995) 289.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

ALPHA = 0.05
POWER = 0.80
#: more blocks than this are no plan any more
MOST_BLOCKS = 10_000


@dataclass(frozen=True)
class Estimate:
    """A cost ratio over ``blocks`` blocks: its 90 % interval, raw p values and the spread of the log ratios."""

    blocks: int
    log_ratio: float
    log_sd: float
    ci_low: float
    ci_high: float
    p_equivalence: float
    p_difference: float

    @property
    def ratio(self) -> float:
        """The geometric mean of the blocks' ratios."""
        return math.exp(self.log_ratio)


def estimate(log_ratios: Sequence[float], margin: float) -> Estimate:
    """Return the estimate from at least two finite log ratios; equivalence is within [1/(1+margin), 1+margin].

    ``p_equivalence`` is the larger of the two one-sided p values, ``p_difference`` the two-sided one.
    Without any spread the interval is the point itself and a p value is 0 or 1.
    """
    values = [float(value) for value in log_ratios]
    n = len(values)
    if n < 2 or not all(map(math.isfinite, values)):
        raise ValueError(f"an estimate needs at least two finite log ratios, got {values}")
    mean = math.fsum(values) / n  # fsum: the same bits whatever the order of the blocks
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    if min(values) == max(values):
        mean, sd = values[0], 0.0  # rounding in the mean must not look like spread
    error, bound, df = sd / math.sqrt(n), math.log1p(margin), n - 1
    half = float(stats.t.ppf(1 - ALPHA, df)) * error
    return Estimate(
        blocks=n,
        log_ratio=mean,
        log_sd=sd,
        ci_low=math.exp(mean - half),
        ci_high=math.exp(mean + half),
        p_equivalence=max(_p_above(mean + bound, error, df), _p_above(bound - mean, error, df)),
        p_difference=min(1.0, 2 * _p_above(abs(mean), error, df)),
    )


def _p_above(distance: float, error: float, df: int) -> float:
    """Return the one-sided p of “the true distance is above 0”."""
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stats.t.sf(distance / error, df))


def corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the Benjamini–Hochberg adjusted p values, in place; None (no test was made) stays None."""
    tested = [p for p in p_values if p is not None]
    if not tested:
        return list(p_values)
    adjusted = iter(stats.false_discovery_control(tested, method="bh"))
    return [None if p is None else float(next(adjusted)) for p in p_values]


def blocks_needed(log_ratio: float, log_sd: float, margin: float, at_least: int) -> int | None:
    """Return the blocks (> ``at_least``) that give 80 % power to reach a verdict if the observed ratio is the true one.

    A verdict is equivalence within ``margin`` or a difference from 1, whichever takes fewer; None beyond 10 000.
    Power of one test from the noncentral t; of the equivalence test 1 − (sum of both one-sided errors), a lower bound.
    The correction over the study is not in it: with many comparisons it takes somewhat more.
    """
    if log_sd == 0:
        return None
    low, high = at_least, at_least + 1
    while _power(high, log_ratio, log_sd, margin) < POWER:
        if high >= MOST_BLOCKS:
            return None
        low, high = high, min(2 * high, MOST_BLOCKS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, log_ratio, log_sd, margin) >= POWER else (middle, high)
    return high


def _power(n: int, log_ratio: float, log_sd: float, margin: float) -> float:
    scale, bound = math.sqrt(n) / log_sd, math.log1p(margin)
    equivalence = _power_one(n, (bound - log_ratio) * scale, ALPHA) + _power_one(
        n, (bound + log_ratio) * scale, ALPHA
    )
    return max(equivalence - 1, _power_one(n, abs(log_ratio) * scale, ALPHA / 2))


def _power_one(n: int, noncentrality: float, alpha: float) -> float:
    """Return the power of a one-sided t test of level ``alpha`` with n − 1 degrees of freedom."""
    critical = float(stats.t.ppf(1 - alpha, n - 1))
    power = float(stats.nct.sf(critical, n - 1, noncentrality)) if abs(noncentrality) < 30 else math.nan
    # where the noncentral t fails numerically, the test is decided and the normal form is exact enough
    return power if math.isfinite(power) else float(stats.norm.sf(critical - noncentrality))
