"""What the GPU workloads call, and how each result is checked on the CPU. The device is a parameter.

Every kernel gives its timed series; ``faults`` of a series looks at what its calls left behind. Host and device
buffers are made from the seed, so that every runtime works on the same bits.
"""

from __future__ import annotations

import math
from typing import Callable, Dict, List, Mapping, NamedTuple, Sequence

import torch

from tare.workloads.declaration import Level
from tare.workloads.gpu_evidence import Series, gemm_faults

RADIUS = 8  # of the separable convolution, as in study X
TAPS = 2 * RADIUS + 1
CONVOLUTION_ERROR = 1e-5  # of the sum of |products|: fp32 over 34 taps stays far below, TF32 does not
BINS_LIMIT = 2**23  # expected values in a bin: counts in fp32 are exact below 2^24


class Device(NamedTuple):
    """Where kernels run: PyTorch's device, its last-level cache, its memory, and how to wait for it."""

    device: torch.device
    cache_bytes: int
    memory_bytes: int
    synchronise: Callable[[], None]

    @property
    def pins(self) -> bool:
        """Whether host memory can be pinned for this device."""
        return str(self.device.type) == "cuda"


def series(kernel: str, factors: Mapping[str, Level], device: Device, seed: int) -> List[Series]:
    """Return the timed series of a workload (``copy``, ``gemm``, …), its buffers filled."""
    generator = torch.Generator().manual_seed(seed)
    levels = {name: level if isinstance(level, str) else int(level) for name, level in factors.items()}
    return KERNELS[kernel](device, generator, **levels)


def _require(device: Device, needed: int, entry: str) -> None:
    if needed > 0.8 * device.memory_bytes:
        raise ValueError(
            "%s: needs %.1f GB of GPU memory, there are %.1f; use a smaller level"
            % (entry, needed / 1e9, device.memory_bytes / 1e9)
        )


def _nothing() -> None:
    return None


def copy(device: Device, generator: torch.Generator, bytes: int) -> List[Series]:
    """Return copies of ``bytes`` bytes, each call with the next of several buffers, beyond the GPU's cache."""
    slots = max(2, math.ceil(4 * device.cache_bytes / (2 * bytes)))
    _require(device, 2 * slots * bytes, "bytes=%d" % bytes)
    base = torch.randint(0, 256, (bytes,), dtype=torch.uint8, generator=generator)
    pageable = [base ^ (slot % 256) for slot in range(slots)]
    pinned = [one.pin_memory() if device.pins else one.clone() for one in pageable]
    back = [torch.empty_like(base) for _ in range(slots)]
    pinned_back = [one.pin_memory() if device.pins else one.clone() for one in back]
    there = [one.to(device.device) for one in pageable]
    target = [torch.empty_like(one) for one in there]

    def one(metric: str, to: Sequence[torch.Tensor], source: Sequence[torch.Tensor], traffic: int) -> Series:
        def clear() -> None:
            for buffer in to:
                buffer.zero_()

        def wrong() -> List[str]:
            bad = [slot for slot in range(slots) if not torch.equal(to[slot].cpu(), pageable[slot])]
            return ["%s: buffers %s do not hold what was copied" % (metric, bad)] if bad else []

        def call(index: int) -> None:
            to[index % slots].copy_(source[index % slots], non_blocking=True)

        return Series(metric, "B/s", float(traffic * bytes), 2 * slots, call, clear, wrong)

    return [
        one("host_to_device_pinned", target, pinned, 1),
        one("host_to_device_pageable", target, pageable, 1),
        one("device_to_host_pinned", pinned_back, there, 1),
        one("device_to_host_pageable", back, there, 1),
        one("device_to_device", target, there, 2),
    ]


def gemm(device: Device, generator: torch.Generator, precision: str, n: int) -> List[Series]:
    """Return the product of two n × n matrices; 2 n³ floating-point operations."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    _require(device, 3 * n * n * kind.itemsize, "n=%d" % n)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    left, right = (torch.empty(n, n).uniform_(-1, 1, generator=generator).to(kind) for _ in range(2))
    a, b, c = (
        left.to(device.device),
        right.to(device.device),
        torch.zeros(n, n, dtype=kind, device=device.device),
    )

    def wrong() -> List[str]:
        return gemm_faults(precision, gemm_error(left, right, c.cpu(), generator))

    def call(index: int) -> None:
        torch.mm(a, b, out=c)

    return [Series("gemm_flops", "flop/s", 2.0 * n**3, 5, call, c.zero_, wrong)]


def gemm_error(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, generator: torch.Generator) -> float:
    """Return the root-mean-square error of eight rows of ``c`` against float64, relative to the sum of |products|."""
    rows = torch.randint(0, len(a), (8,), generator=generator)
    chosen = a[rows].double()
    squares = 0.0
    for first in range(0, b.shape[1], 1024):  # in parts: b in float64 would be large
        part = b[:, first : first + 1024].double()
        scale = chosen.abs() @ part.abs()
        found = c[rows, first : first + 1024].double()
        squares += float((((found - chosen @ part) / scale) ** 2).sum())
    return math.sqrt(squares / (len(rows) * b.shape[1]))


def convolution(device: Device, generator: torch.Generator, n: int) -> List[Series]:
    """Return two convolutions, along rows and then along columns, of an n × n image, zeros around it."""
    _require(device, 8 * 4 * n * n, "n=%d" % n)
    if n < 4 * TAPS:
        raise ValueError("n: %d is too small for a kernel of %d taps; use %d or more" % (n, TAPS, 4 * TAPS))
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False  # the choice of kernel must not depend on a race of timings
    torch.backends.cudnn.deterministic = True
    image = torch.empty(n, n).uniform_(-1, 1, generator=generator)
    taps = torch.empty(TAPS).uniform_(-1, 1, generator=generator)
    x, kernel = image.to(device.device)[None, None], taps.to(device.device)
    result: Dict[str, torch.Tensor] = {}

    def call(index: int) -> None:
        rows = torch.conv2d(x, kernel[None, None, None, :], padding=(0, RADIUS))
        result["y"] = torch.conv2d(rows, kernel[None, None, :, None], padding=(RADIUS, 0))

    def wrong() -> List[str]:
        error = convolution_error(image, taps, result["y"][0, 0].cpu())
        if error <= CONVOLUTION_ERROR:
            return []
        return ["convolution: error %.3g, limit %.3g: the result is wrong" % (error, CONVOLUTION_ERROR)]

    return [Series("convolution_pixels", "pixel/s", float(n * n), 10, call, result.clear, wrong)]


def convolution_error(image: torch.Tensor, taps: torch.Tensor, found: torch.Tensor) -> float:
    """Return the largest error of the two corners and the middle against float64, relative to Σ|taps|² max|image|."""
    n, size = len(image), 2 * TAPS
    scale = float(taps.double().abs().sum() ** 2 * image.abs().max())
    padded = torch.nn.functional.pad(image.double(), (RADIUS,) * 4)
    worst = 0.0
    for at in (0, (n - size) // 2, n - size):
        window = padded[at : at + size + 2 * RADIUS, at : at + size + 2 * RADIUS]
        rows = sum(taps[t].double() * window[:, t : t + size] for t in range(TAPS))
        right = sum(taps[t].double() * rows[t : t + size] for t in range(TAPS))
        worst = max(
            worst, float((found[at : at + size, at : at + size].double() - right).abs().max()) / scale
        )
    return worst if math.isfinite(worst) else math.inf


def histogram(device: Device, generator: torch.Generator, bins: int, n: int) -> List[Series]:
    """Return the histogram of n values of one byte each, held as fp32; 4 n bytes are read."""
    _require(device, 4 * n, "n=%d" % n)
    if n > bins * BINS_LIMIT:
        raise ValueError("n: %d values in %d bins cannot be counted exactly in fp32; use fewer" % (n, bins))
    values = torch.randint(0, 256, (n,), dtype=torch.uint8, generator=generator)
    expected = torch.bincount(values // (256 // bins), minlength=bins)
    x = values.to(device.device).float() + 0.5  # in the middle of its bin
    result: Dict[str, torch.Tensor] = {}

    def call(index: int) -> None:
        result["counts"] = torch.histc(x, bins=bins, min=0, max=256)

    def wrong() -> List[str]:
        different = int((result["counts"].cpu().long() != expected).sum())
        return ["histogram: %d of %d bins hold a wrong count" % (different, bins)] if different else []

    return [Series("histogram_bytes", "B/s", 4.0 * n, 10, call, result.clear, wrong)]


def transpose(device: Device, generator: torch.Generator, n: int) -> List[Series]:
    """Return the transposition of an n × n matrix of fp32; 8 n² bytes are read and written."""
    _require(device, 8 * n * n, "n=%d" % n)
    matrix = torch.empty(n, n).uniform_(-1, 1, generator=generator)
    x = matrix.to(device.device)
    y = torch.zeros_like(x)

    def call(index: int) -> None:
        y.copy_(x.t())

    def wrong() -> List[str]:
        return (
            [] if torch.equal(y.cpu(), matrix.t()) else ["transposition: the result differs from the CPU's"]
        )

    return [Series("transpose_bytes", "B/s", 8.0 * n * n, 10, call, y.zero_, wrong)]


def launch(device: Device, generator: torch.Generator) -> List[Series]:
    """Return launches of a kernel on one number: many in a queue, and one at a time with a wait after each."""
    counter = torch.zeros(1, dtype=torch.int64, device=device.device)
    calls = {"made": 0}

    def queued(index: int) -> None:
        calls["made"] += 1
        counter.add_(1)

    def waited(index: int) -> None:
        queued(index)
        device.synchronise()

    def clear() -> None:
        calls["made"] = 0
        counter.zero_()

    def wrong() -> List[str]:
        found = int(counter.cpu()[0])
        if found == calls["made"]:
            return []
        return ["kernel launch: %d kernels were launched, %d took effect" % (calls["made"], found)]

    return [
        Series("launch_seconds", "s", 0.0, 1000, queued, clear, wrong),
        Series("round_trip_seconds", "s", 0.0, 200, waited, clear, wrong),
    ]


KERNELS: Dict[str, Callable[..., List[Series]]] = {
    "copy": copy,
    "gemm": gemm,
    "convolution": convolution,
    "histogram": histogram,
    "transpose": transpose,
    "launch": launch,
}
