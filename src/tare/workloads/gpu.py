"""Declarations of the GPU workloads: copies, GEMM, convolution, histogram, transposition, kernel launch.

The adapter imports PyTorch and stands apart; stack torch-cuda is made only where an NVIDIA GPU is found.
"""

from __future__ import annotations

from typing import Mapping, Tuple

from tare.workloads.declaration import Factor, Metric, Workload

MIB = 2**20


def _gpu(
    kernel: str, title: str, factors: Mapping[str, Factor], metrics: Tuple[Metric, ...], seconds: float
) -> Workload:
    return Workload(
        name="gpu-" + kernel,
        title=title,
        stack="torch-cuda",
        adapter="tare.workloads.gpu_run",
        factors=factors,
        metrics=metrics,
        layer="gpu",
        expected_seconds=seconds,
        gpu=True,
    )


def _rate(name: str, unit: str, label: str) -> Metric:
    return Metric(name, "steady", unit, False, label)


WORKLOADS = (
    _gpu(
        "copy",
        "copies between host and GPU memory",
        {"bytes": Factor(32 * MIB, (), "bytes in one copy; study X copied 32 MiB")},
        (
            _rate("host_to_device_pinned", "B/s", "host to GPU, pinned memory"),
            _rate("host_to_device_pageable", "B/s", "host to GPU, pageable memory"),
            _rate("device_to_host_pinned", "B/s", "GPU to host, pinned memory"),
            _rate("device_to_host_pageable", "B/s", "GPU to host, pageable memory"),
            _rate("device_to_device", "B/s", "within the GPU (read + write)"),
        ),
        10.0,
    ),
    _gpu(
        "gemm",
        "matrix product on the GPU",
        {
            "precision": Factor(
                "fp32", ("fp32", "tf32", "bf16"), "of the products; tf32 is fp32 with 10 bits"
            ),
            "n": Factor(4096, (), "rows and columns of the square matrices"),
        },
        (_rate("gemm_flops", "flop/s", "GEMM"),),
        10.0,
    ),
    _gpu(
        "convolution",
        "separable convolution on the GPU",
        {
            "n": Factor(
                3072, (), "rows and columns of the image; the kernel has 17 taps each way, as in study X"
            )
        },
        (_rate("convolution_pixels", "pixel/s", "separable convolution"),),
        10.0,
    ),
    _gpu(
        "histogram",
        "histogram on the GPU",
        {
            "bins": Factor(256, (64, 256), "bins, as in study X"),
            "n": Factor(2**24, (), "values, 4 bytes each"),
        },
        (_rate("histogram_bytes", "B/s", "histogram (bytes read)"),),
        10.0,
    ),
    _gpu(
        "transpose",
        "transposition on the GPU",
        {"n": Factor(8192, (), "rows and columns of the matrix, 4 bytes each")},
        (_rate("transpose_bytes", "B/s", "transposition (read + write)"),),
        10.0,
    ),
    _gpu(
        "launch",
        "kernel launch",
        {},
        (
            Metric("launch_seconds", "steady", "s", True, "kernel launch, in a queue"),
            Metric("round_trip_seconds", "steady", "s", True, "kernel launch and wait"),
        ),
        10.0,
    ),
)
