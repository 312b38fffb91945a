"""GPU workloads without a GPU: what they declare, and what makes a run invalid."""

from __future__ import annotations

import pytest

from tare.config import load
from tare.workloads import gpu
from tare.workloads.gpu_evidence import (
    Sample,
    Series,
    clock_faults,
    ecc_faults,
    gemm_faults,
    peak_faults,
    rows,
)

COPY = Series("copy", "B/s", 1e6, 10, lambda _: None, lambda: None, list)
LAUNCH = COPY._replace(metric="launch_seconds", unit="s", work=0.0, calls=1000)


def test_declarations() -> None:
    assert [workload.name for workload in gpu.WORKLOADS] == [
        "gpu-copy",
        "gpu-gemm",
        "gpu-convolution",
        "gpu-histogram",
        "gpu-transpose",
        "gpu-launch",
    ]
    for workload in gpu.WORKLOADS:
        assert (workload.stack, workload.layer, workload.gpu) == ("torch-cuda", "gpu", True)
        for metric in workload.metrics:
            assert metric.cost is (metric.unit == "s")
            assert metric.phase == "steady"
    assert gpu.WORKLOADS[0].factors["bytes"].default == 32 * 2**20


def test_a_study_may_ask_for_them() -> None:
    study = load(
        {
            "study": "g",
            "cells": [{"workload": "gpu-gemm", "factors": {"precision": ["fp32", "tf32", "bf16"]}}],
        }
    )
    assert [cell.id for cell in study.expand()] == [
        "gpu-gemm",
        "gpu-gemm+precision=tf32",
        "gpu-gemm+precision=bf16",
    ]
    assert study.recipe("torch-cuda") == ("torch-cuda", "torch-cuda")


def test_rates_and_times_from_both_clocks() -> None:
    found = rows(COPY, "steady", [Sample(0.02, 0.01), Sample(0.01, 0.008)])
    assert [(row["metric"], row["index"], row["value"], row["unit"]) for row in found] == [
        ("copy", 0, pytest.approx(5e8), "B/s"),
        ("copy", 1, pytest.approx(1e9), "B/s"),
        ("copy_by_events", 0, pytest.approx(1e9), "B/s"),
        ("copy_by_events", 1, pytest.approx(1.25e9), "B/s"),
    ]
    assert {(row["phase"], row["epoch"]) for row in found} == {("steady", None)}
    assert [row["value"] for row in rows(LAUNCH, "first", [Sample(0.004, None)])] == [pytest.approx(4e-6)]


@pytest.mark.parametrize(
    ("precision", "error", "says"),
    [
        ("fp32", 6e-8, None),
        ("fp32", 8e-6, "limit for fp32 9.54e-07"),  # what TF32 gives
        ("fp32", float("nan"), "limit for fp32"),
        ("tf32", 8e-6, None),
        ("tf32", 6e-8, "tf32 was not used"),
        ("tf32", 1e-3, "limit for tf32"),
        ("bf16", 2.4e-5, None),
        ("bf16", 6e-8, "bf16 was not used"),
        ("bf16", 0.01, "limit for bf16"),
    ],
)
def test_the_error_tells_the_precision(precision: str, error: float, says: str | None) -> None:
    reasons = gemm_faults(precision, error)
    assert [says in reason for reason in reasons if says] == [True] * len(reasons)
    assert bool(reasons) == (says is not None)


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        (Sample(1e-3, 1e-3), None),
        (Sample(1e-3, 1.03e-3), None),  # 2 % and 20 µs: 1.04 ms
        (Sample(1e-3, 1.05e-3), "one clock is wrong"),
        (Sample(1e-3, None), None),
        (Sample(0.0, None), "nothing was measured"),
        (Sample(1e-3, 0.0), "nothing was measured"),
    ],
)
def test_two_clocks_must_agree(sample: Sample, says: str | None) -> None:
    reasons = clock_faults("copy", [Sample(1e-3, 0.9e-3), sample])
    assert bool(reasons) == (says is not None)
    assert says is None or says in reasons[0]


def test_no_bandwidth_above_that_of_the_memory() -> None:
    fast = [Sample(0.01, 0.01)] * 3  # 1 GB/s
    assert peak_faults(COPY, fast, 1e9 / 1.04) == []
    (reason,) = peak_faults(COPY, fast, 0.9e9)
    assert reason.startswith("copy: 1e+09 B/s is more than the GPU's memory can do (9e+08 B/s)")
    assert peak_faults(COPY, fast, None) == []
    assert peak_faults(COPY._replace(unit="flop/s"), fast, 1.0) == []


@pytest.mark.parametrize(
    ("before", "after", "count"), [(0, 0, 0), (1, 1, 0), (0, 2, 1), (None, 2, 0), (0, None, 0)]
)
def test_memory_errors_during_the_run(before: int | None, after: int | None, count: int) -> None:
    name = "uncorrected_ecc_errors"
    assert len(ecc_faults({name: before}, {name: after})) == count
    assert ecc_faults({}, {}) == []
