"""Whether a GPU run did its work, by its results' errors, its two clocks and its GPU; standard library only."""

from __future__ import annotations

import statistics
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from tare.workloads.samples import sample

CLOCKS_DIFFER = 1.02  # events may exceed the host's clock by this factor, …
CLOCKS_DIFFER_SECONDS = 20e-6  # … and by this many seconds
PEAK_EXCESS = 1.05  # what a bandwidth may exceed the memory's by: clocks are rounded
#: relative to the sum of |products|: root-mean-square error that fp32 stays below, and that TF32 and BF16 exceed
FP32_ERROR = 2.0**-20
ERRORS = {"fp32": FP32_ERROR, "tf32": 2.0**-11, "bf16": 2.0**-9}


class Series(NamedTuple):
    """One number: ``calls`` calls of ``call(index)`` make a sample.

    ``work`` of one call in ``unit`` × s; 0: the number is the time of one call. ``before`` runs once, ``faults``
    after the last sample; neither is timed.
    """

    metric: str
    unit: str
    work: float
    calls: int
    call: Callable[[int], Any]
    before: Callable[[], Any]
    faults: Callable[[], List[str]]


class Sample(NamedTuple):
    """Seconds of one sample by the host's clock and, on a GPU, between two events."""

    host: float
    events: Optional[float]


def gemm_faults(precision: str, error: float) -> List[str]:
    """Return what is wrong with a product of this error: too large, or too small for the precision asked for."""
    if not error <= ERRORS[precision]:
        return [
            "GEMM: error %.3g, limit for %s %.3g: the product is wrong or was made with fewer bits; "
            "look at the GPU's memory errors (nvidia-smi -q -d ECC)" % (error, precision, ERRORS[precision])
        ]
    if precision != "fp32" and error < FP32_ERROR:
        return [
            "GEMM: error %.3g is that of fp32: %s was not used; it needs a GPU of compute capability 8.0"
            % (error, precision)
        ]
    return []


def clock_faults(metric: str, found: List[Sample]) -> List[str]:
    """Return a reason when a time is not above 0, or the events' time exceeds the host's around it."""
    for one in found:
        if one.host <= 0 or (one.events is not None and one.events <= 0):
            return ["%s: a sample lasted %s s (by events %s): nothing was measured" % (metric, *one)]
        limit = one.host * CLOCKS_DIFFER + CLOCKS_DIFFER_SECONDS
        if one.events is not None and one.events > limit:
            return [
                "%s: CUDA events say %.6g s, the host's clock around them %.6g s: one clock is wrong"
                % (metric, one.events, one.host)
            ]
    return []


def peak_faults(one: Series, found: List[Sample], peak: Optional[float]) -> List[str]:
    """Return a reason when a bandwidth exceeds what the GPU's memory can do: caches or nothing were measured."""
    if one.unit != "B/s" or peak is None:
        return []
    rate = one.work * one.calls / statistics.median(sample.host for sample in found)
    if rate <= peak * PEAK_EXCESS:
        return []
    return [
        "%s: %.3g B/s is more than the GPU's memory can do (%.3g B/s): its cache was measured; use a larger level"
        % (one.metric, rate, peak)
    ]


def ecc_faults(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """Return a reason when the GPU counted uncorrected memory errors during the run."""
    first_count, last_count = (state.get("uncorrected_ecc_errors") for state in (before, after))
    if first_count is None or last_count is None or last_count <= first_count:
        return []
    return ["GPU memory: %d uncorrected errors during the run; replace the GPU" % (last_count - first_count)]


def rows(one: Series, phase: str, found: List[Sample]) -> List[Dict[str, Any]]:
    """Return the sample events of a series, by the host's clock and, where there are any, by CUDA events."""
    times = {one.metric: [sample.host for sample in found]}
    if all(sample.events is not None for sample in found):
        times[one.metric + "_by_events"] = [sample.events or 0.0 for sample in found]
    return [
        sample(metric, one.unit, one.work * one.calls / each if one.work else each / one.calls, index, phase)
        for metric, seconds in times.items()
        for index, each in enumerate(seconds)
    ]
