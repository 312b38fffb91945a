"""One GPU run: the device found, series timed by the host's clock and by CUDA events, the GPU's state around them.

A sample lasts from before its first call until the device has finished its last (synchronised). That is the number
that is compared: it holds what a container could cost, the way through driver and kernel. The events' own times
stand beside it as ``<metric>_by_events``. The state is read before the first call, and once more after the last
sample while the same calls go on, because the clocks of an idle GPU say nothing.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from functools import cached_property
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from tare.worker import nvidia_smi
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import gpu_kernels
from tare.workloads.gpu_evidence import Sample, Series, clock_faults, ecc_faults, peak_faults, rows
from tare.workloads.gpu_kernels import Device

WARM_UP, SAMPLES = 5, 30
#: nvidia-smi as a function of the fields wanted: state by state, or settings
Smi = Callable[..., List[Dict[str, Any]]]


class GpuError(RuntimeError):
    """No GPU can be used here; the message says why and what to do."""


class GpuRun(Task):
    """One run of one GPU workload; ``device`` and ``smi`` are parameters so that all but the kernels can be tested."""

    epochs = 1
    timed = False

    def __init__(self, request: Request, device: Device, smi: Smi = nvidia_smi.query) -> None:
        self.device, self.smi = device, smi
        self.before = state(smi)
        self.under_load: Dict[str, Any] = {}
        self.kernel = request.workload.partition("-")[2]
        torch.set_num_threads(request.threads)
        self.series = gpu_kernels.series(self.kernel, request.factors, device, request.seed)
        self.factors = dict(request.factors)
        self.warm: Dict[str, Sample] = {}
        self.found: Dict[str, List[Sample]] = {}
        self.faults: List[str] = []
        device.synchronise()

    def steps(self, epoch: int) -> Iterator[None]:
        """Time every series, check what it left, then read the GPU's state under the load of the last."""
        for one in self.series:
            one.before()
            self.device.synchronise()
            warm = [self._sample(one) for _ in range(WARM_UP)]
            self.warm[one.metric] = warm[0]
            self.found[one.metric] = [self._sample(one) for _ in range(SAMPLES)]
            self.faults += one.faults()
            yield
        self.under_load = self._state_under_load(self.series[-1])

    def _sample(self, one: Series) -> Sample:
        timer = _Events() if self.device.device.type == "cuda" else None
        begun = time.perf_counter_ns()
        if timer:
            timer.start.record()
        for index in range(one.calls):
            one.call(index)
        if timer:
            timer.stop.record()
        self.device.synchronise()
        ended = time.perf_counter_ns()
        return Sample((ended - begun) * 1e-9, timer.seconds() if timer else None)

    def _state_under_load(self, one: Series) -> Dict[str, Any]:
        def run(argv: Sequence[str]) -> Tuple[int, str]:
            try:
                asked = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            except OSError as error:
                raise nvidia_smi.SmiError("%s: %s" % (argv[0], error)) from None
            with asked:
                while asked.poll() is None:
                    self._sample(one)
                assert asked.stdout is not None
                return asked.returncode, asked.stdout.read().decode("utf-8", "replace")

        return state(self.smi, run)

    @cached_property
    def settings(self) -> Dict[str, Any]:
        """What nvidia-smi says of the GPU's settings; asked once, when nothing is timed any more."""
        return first(self.smi, nvidia_smi.SETTINGS)

    def samples(self) -> List[Dict[str, Any]]:
        """Return the numbers: the first sample of each series as phase ``first``, the others ``steady``."""
        found = []
        for one in self.series:
            found += rows(one, "first", [self.warm[one.metric]])
            found += rows(one, "steady", self.found[one.metric])
        return found

    def check(self) -> Check:
        """Return whether every result was right, both clocks agree and no bandwidth exceeds the memory's."""
        reasons = list(self.faults)
        peak = memory_peak(self.settings, self.device.device)
        for one in self.series:
            reasons += clock_faults(one.metric, self.found[one.metric])
            reasons += peak_faults(one, self.found[one.metric], peak)
        reasons += ecc_faults(self.before, self.under_load)
        facts = {
            "work": {
                "kernel": self.kernel,
                **self.factors,
                "samples": SAMPLES,
                "calls": {one.metric: one.calls for one in self.series},
                "unit_seconds": {one.metric: one.work for one in self.series},
            },
            "gpu_before": self.before,
            "gpu_under_load": self.under_load,
            "memory_peak_bytes_per_second": peak,
        }
        return Check(reasons, facts)

    def software(self) -> Dict[str, Any]:
        """Return PyTorch's and CUDA's build, and the GPU with its settings."""
        uuid = self.settings.get("uuid")
        return {
            "torch": torch.__version__,
            "config": torch.__config__.show(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "threads": torch.get_num_threads(),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
            "device": str(self.device.device),
            "device_id": hashlib.sha256(uuid.encode()).hexdigest()[:12] if uuid else None,
            "gpu": {name: value for name, value in self.settings.items() if name != "uuid"},
        }


class _Events:
    """A pair of CUDA events."""

    def __init__(self) -> None:
        self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def seconds(self) -> float:
        """Return the time between them; the device must have finished."""
        return float(self.start.elapsed_time(self.stop)) * 1e-3


def set_up(request: Request) -> GpuRun:
    """Return the run that ``request`` names, on the first GPU of the PCI bus."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order of nvidia-smi, before CUDA starts
    return GpuRun(request, first_gpu())


def first_gpu() -> Device:
    """Return the first GPU; raises ``GpuError``."""
    if not torch.cuda.is_available():
        raise GpuError(
            "PyTorch %s (CUDA %s) finds no usable GPU here; nvidia-smi must list one in this runtime, and its "
            "driver must be new enough for this CUDA" % (torch.__version__, torch.version.cuda)
        )
    device = torch.device("cuda:0")
    facts = torch.cuda.get_device_properties(device)
    return Device(
        device,
        getattr(facts, "L2_cache_size", 0) or 0,
        facts.total_memory,
        lambda: torch.cuda.synchronize(device),
    )


def state(smi: Smi, run: Optional[nvidia_smi.Run] = None) -> Dict[str, Any]:
    """Return the state of the first GPU, empty where nvidia-smi is not there."""
    return first(smi, nvidia_smi.STATE, run)


def first(smi: Smi, fields: Any, run: Optional[nvidia_smi.Run] = None) -> Dict[str, Any]:
    """Return what nvidia-smi says of the first GPU, empty when it says nothing."""
    try:
        gpus = smi(fields, run)
    except nvidia_smi.SmiError:
        return {}
    return dict(gpus[0]) if gpus else {}


def memory_peak(settings: Dict[str, Any], device: torch.device) -> Optional[float]:
    """Return the GPU memory's bandwidth in B/s: two transfers in a clock × bus width; None where it is not told."""
    if device.type != "cuda":
        return None
    width = getattr(torch.cuda.get_device_properties(device), "memory_bus_width", None)
    clock = settings.get("max_memory_clock_hz")
    return 2.0 * clock * width / 8 if clock and width else None
