"""The GPU adapter's own arithmetic, by PyTorch on the CPU: right results pass, wrong ones do not; on a GPU all of it.

The device is a parameter of the adapter, so that the very code of a GPU run is run here, small and without events.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from adapter_requests import adapter_request, request_body
from tare.software.locks import StackLock
from tare.software.venv import ensure_host_form
from tare.workloads.registry import WORKLOADS

SRC = Path(__file__).resolve().parents[2] / "src"
SMALL: dict[str, dict[str, Any]] = {
    "copy": {"bytes": 4099},
    "gemm": {"n": 96, "precision": "fp32"},
    "convolution": {"n": 100},
    "histogram": {"bins": 64, "n": 5000},
    "transpose": {"n": 70},
    "launch": {},
}
PREPARE = """
import json, sys, warnings
warnings.simplefilter("error")
import torch
from tare.worker import loop, nvidia_smi
from tare.worker.request import Request
from tare.workloads import gpu_kernels, gpu_run

CPU = gpu_kernels.Device(torch.device("cpu"), 10**4, 10**9, lambda: None)
gpu_run.SAMPLES, gpu_run.WARM_UP = 3, 1

def request(workload, factors):
    return Request("r", "gpu", workload, factors, 7, 1, 10**9, None, "/tmp", "/tmp", None, False)

def series(workload, factors):
    return gpu_kernels.series(workload, factors, CPU, 7)

def absent(fields, run=None):
    raise nvidia_smi.SmiError("nvidia-smi is not installed")

given = json.loads(sys.argv[1])
"""


def run(python: str, script: str, given: object) -> Any:
    environment = {"PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.defpath}
    done = subprocess.run(
        [python, "-c", PREPARE + script, json.dumps(given)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


WHOLE = """
found = {}
for kernel, factors in given.items():
    task = gpu_run.GpuRun(request("gpu-" + kernel, factors), CPU, absent)
    loop.measure(task)
    reasons, facts = task.check()
    found[kernel] = [reasons, facts, task.samples(), task.software()]
print(json.dumps(found))
"""


def test_every_workload_gives_its_metrics_and_is_valid(torch_python: str) -> None:
    found = run(torch_python, WHOLE, SMALL)
    assert [*found] == [*SMALL]
    for kernel, (reasons, facts, samples, software) in found.items():
        assert reasons == []
        declared = [(metric.name, metric.unit) for metric in WORKLOADS[f"gpu-{kernel}"].metrics]
        steady = [row for row in samples if row["phase"] == "steady"]
        assert list(dict.fromkeys((row["metric"], row["unit"]) for row in steady)) == declared
        assert len(steady) == 3 * len(declared)
        assert len(samples) == 4 * len(declared)
        assert all(row["value"] > 0 for row in samples)
        assert facts["work"]["kernel"] == kernel
        assert {name: facts["work"][name] for name in SMALL[kernel]} == SMALL[kernel]
        assert (facts["gpu_before"], facts["gpu_under_load"]) == ({}, {})
        assert (software["cuda"], software["gpu"], software["threads"]) == (None, {}, 1)


RIGHT_AND_WRONG = """
handed_back = torch.Tensor.cpu

def damaged(tensor):
    copy = handed_back(tensor).clone()
    (copy if copy.dim() == 2 and given["everywhere"] else copy.flatten()[-1:]).add_(1)
    return copy

found = {}
for kernel, factors in given["kernels"].items():
    given["everywhere"] = kernel == "gemm"  # of whose result only some rows are looked at
    for one in series(kernel, factors):
        one.before()
        untouched = one.faults() if kernel in ("copy", "gemm", "transpose") else None
        for index in range(one.calls):
            one.call(index)
        right = one.faults()
        torch.Tensor.cpu = damaged
        found[one.metric] = [untouched, right, one.faults()]
        torch.Tensor.cpu = handed_back
print(json.dumps(found))
"""


def test_wrong_results_are_seen_right_ones_are_not_complained_of(torch_python: str) -> None:
    """Wrong is one last element that comes back from the device with 1 added to it."""
    found = run(torch_python, RIGHT_AND_WRONG, {"kernels": SMALL})
    assert [*found] == [metric.name for kernel in SMALL for metric in WORKLOADS[f"gpu-{kernel}"].metrics]
    for metric, (untouched, right, wrong) in found.items():
        assert untouched is None or len(untouched) == 1, f"{metric}: no work done, and nobody saw it"
        assert right == [], metric
        assert len(wrong) == 1, f"{metric}: a wrong result was not seen"


PRECISIONS = """
from tare.workloads.gpu_evidence import gemm_faults
found = {}
for n in given:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.empty(n, n).uniform_(-1, 1, generator=generator) for _ in range(2))

    def rounded(x, bits):  # to a mantissa of so many bits, as the tensor cores do with their input
        mantissa, exponent = torch.frexp(x)
        return torch.ldexp((mantissa * 2 ** (bits + 1)).round() / 2 ** (bits + 1), exponent)

    products = {
        "fp32": (a @ b, a, b),
        "tf32": (rounded(a, 10) @ rounded(b, 10), a, b),
        "bf16": ((a.bfloat16().float() @ b.bfloat16().float()).bfloat16(), a.bfloat16(), b.bfloat16()),
    }
    for made, (c, left, right) in products.items():
        error = gpu_kernels.gemm_error(left, right, c, generator)
        found[made + str(n)] = {asked: len(gemm_faults(asked, error)) for asked in products}
print(json.dumps(found))
"""


def test_the_error_of_a_product_tells_how_it_was_made(torch_python: str) -> None:
    found = run(torch_python, PRECISIONS, [64, 512, 1500])
    for n in (64, 512, 1500):
        assert found[f"fp32{n}"] == {"fp32": 0, "tf32": 1, "bf16": 1}
        assert found[f"tf32{n}"] == {"fp32": 1, "tf32": 0, "bf16": 0}
        assert found[f"bf16{n}"]["fp32"] == 1
        assert found[f"bf16{n}"]["bf16"] == 0


REFUSED = """
found = []
for kernel, factors in given:
    try:
        series(kernel, factors)
    except ValueError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_levels_that_cannot_be_are_refused_with_the_entry(torch_python: str) -> None:
    found = run(
        torch_python,
        REFUSED,
        [
            ("copy", {"bytes": 10**9}),
            ("gemm", {"precision": "fp32", "n": 10**5}),
            ("convolution", {"n": 20}),
            ("histogram", {"bins": 64, "n": 64 * 2**23 + 1}),
            ("transpose", {"n": 10**5}),
        ],
    )
    assert found[0] == "bytes=1000000000: needs 4.0 GB of GPU memory, there are 1.0; use a smaller level"
    assert found[1].startswith("n=100000: needs 120.0 GB")
    assert found[2] == "n: 20 is too small for a kernel of 17 taps; use 68 or more"
    assert "needs 2.1 GB" in found[3] or "cannot be counted exactly" in found[3]
    assert found[4].startswith("n=100000: needs 80.0 GB")


STATE = """
asked = []

def program(argv):
    return ["sh", "-c", "sleep 0.2; echo P0"]

def smi(fields, run=None):
    asked.append(run is not None)
    if run is None:
        return [{"performance_state": "P8"}]
    return [{"performance_state": run(program(fields))[1].strip()}]

task = gpu_run.GpuRun(request("gpu-launch", {}), CPU, smi)
launched = []
counted = task.series[-1].call
task.series[-1] = task.series[-1]._replace(call=lambda index: (launched.append(index), counted(index)))
loop.measure(task)
facts = task.check().facts
print(json.dumps([asked[:2], facts["gpu_before"], facts["gpu_under_load"], len(launched)]))
"""


def test_the_state_is_read_before_and_while_the_same_work_goes_on(torch_python: str) -> None:
    asked, before, after, launched = run(torch_python, STATE, {})
    assert asked == [False, True]
    assert (before, after) == ({"performance_state": "P8"}, {"performance_state": "P0"})
    assert launched > (1 + 3) * 200, "no work went on while nvidia-smi ran"


def work(python: str, folder: Path, workload: str) -> list[dict[str, Any]]:
    (folder / "request.json").write_text(json.dumps(request_body(adapter_request(workload, folder, seed=3))))
    environment = {"PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
    argv = [python, "-m", "tare.worker", str(folder / "request.json")]
    subprocess.run(argv, env=environment, check=False, timeout=300, capture_output=True)
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def test_without_a_gpu_the_worker_says_so(torch_python: str, tmp_path: Path) -> None:
    """The CPU build finds none anywhere; what the measuring side skips never comes so far."""
    found = work(torch_python, tmp_path, "gpu-launch")
    assert [event["event"] for event in found] == ["start", "error"]
    assert found[1]["kind"] == "GpuError"
    assert found[1]["message"].startswith("PyTorch 2.13.0+cpu (CUDA None) finds no usable GPU here;")


@pytest.mark.slow
@pytest.mark.needs("gpu", "host_python")
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if WORKLOADS[name].gpu])
def test_on_a_gpu(repository: Path, tmp_path: Path, workload: str) -> None:
    python = ensure_host_form(StackLock(repository / "envs", "torch-cuda")).python
    found = work(python, tmp_path, workload)
    (check,) = (event for event in found if event["event"] == "check")
    assert check["reasons"] == []
    (software,) = (event["software"] for event in found if event["event"] == "fingerprint")
    assert software["device"] == "cuda:0"
    assert software["gpu"]["driver"]
    measured = {event["metric"] for event in found if event["event"] == "sample"}
    declared = {metric.name for metric in WORKLOADS[workload].metrics}
    assert measured == declared | {f"{name}_by_events" for name in declared}
