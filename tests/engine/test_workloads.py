"""The workloads for real: PyTorch from its lock in a venv, hpcc as installed, hpcc in the strictest container."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from adapter_requests import adapter_request, request_body
from fifos import heard
from tare.data import prepare
from tare.page_cache import evict, resident_share
from tare.runtimes.base import LABEL
from tare.worker.cpus import effective_cpus

SRC = Path(__file__).resolve().parents[2] / "src"
GB = 10**9
NAMELESS = 54_321  # a user that no machine has a name for
NO_VARIABLES: Mapping[str, str] = {}
HPCC_METRICS = {
    *("hpl_flops", "dgemm_flops", "stream_triad", "fft_flops", "random_access", "ptrans"),
}
PARAMETERS = {"fcn5": 14_205_962, "alexnet": 85_098}
DATASETS = {"fcn5": "mnist", "alexnet": "cifar10"}
TRAINING = {"batch": 64, "samples": 200, "epochs": 2, "workers": 0, "cache": "warm"}


def body(output: str, workload: str = "hpcc", **changes: Any) -> dict[str, Any]:
    own = {"factors": {"n": 1500, "single_copy": "none"}, "threads": effective_cpus(), "memory_bytes": 4 * GB}
    return request_body(adapter_request(workload, output, **{"seed": 3, **own, **changes}))


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def only(found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (event,) = (event for event in found if event["event"] == kind)
    return event


def start(
    python: str, folder: Path, request: dict[str, Any], variables: Mapping[str, str] = NO_VARIABLES
) -> subprocess.Popen[bytes]:
    (folder / "request.json").write_text(json.dumps(request))
    own = {"PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
    command = [python, "-m", "tare.worker", str(folder / "request.json")]
    return subprocess.Popen(command, env={**own, **variables})


def run(
    python: str, folder: Path, variables: Mapping[str, str] = NO_VARIABLES, **changes: Any
) -> list[dict[str, Any]]:
    process = start(python, folder, body(str(folder), **changes), variables)
    assert process.wait(timeout=300) in (0, 1)
    return events(folder)


def run_strictly(image: str, folder: Path, **changes: Any) -> list[dict[str, Any]]:
    """Read-only root, no network, no capabilities, no new privileges, a user without a name."""
    (folder / "request.json").write_text(json.dumps(body("/tare", **changes)))
    folder.chmod(0o777)
    # The machine's own programs, seen read-only in an image that has none of them.
    own = ["/usr", "/etc/alternatives", "/etc/openmpi", "/etc/ld.so.cache", "/lib", "/lib64"]
    volumes = [f"{path}:{path}:ro" for path in own if Path(path).exists()]
    client = docker.from_env()
    try:
        client.containers.run(
            image,
            ["/usr/bin/python3", "-m", "tare.worker", "/tare/request.json"],
            labels={LABEL: "test"},
            user=f"{NAMELESS}:{NAMELESS}",
            read_only=True,
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            environment={"PYTHONPATH": "/data", "PYTHONDONTWRITEBYTECODE": "1"},
            volumes=[*volumes, f"{folder}:/tare", f"{SRC}:/data:ro"],
            remove=True,
        )
    finally:
        client.close()
    return events(folder)


def assert_hpcc(found: list[dict[str, Any]]) -> None:
    check = only(found, "check")
    assert check["reasons"] == []
    wanted = HPCC_METRICS | ({"latency"} if effective_cpus() > 1 else set())
    values = {event["metric"]: event["value"] for event in found if event["event"] == "sample"}
    assert set(values) == wanted
    assert values["hpl_flops"] > 1e8
    assert 0 < check["facts"]["hpl_over_dgemm"] < 1.5
    software = only(found, "fingerprint")["software"]
    assert len(software["bindings"]) == effective_cpus()
    assert software["openblas_cores"] == [software["openblas"]["corename"]]


@pytest.mark.needs("hpc_host")
def test_hpcc_as_installed(tmp_path: Path) -> None:
    found = run(sys.executable, tmp_path)
    assert_hpcc(found)
    libraries = only(found, "fingerprint")["libraries"]
    for name in ("hpcc", "libmpi", "openblas"):
        assert any(name in path for path in libraries), name


@pytest.mark.engine
@pytest.mark.needs("hpc_host")
def test_hpcc_with_nothing_but_its_output_folder(tmp_path: Path, tiny_image: str) -> None:
    found = run_strictly(tiny_image, tmp_path)
    assert only(found, "fingerprint")["process"]["uid"] == NAMELESS
    assert_hpcc(found)


@pytest.fixture(scope="session")
def data() -> Iterator[Path]:
    """Both data sets, on a disk (not in /tmp, which may be memory)."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tare-test-") as folder:
        for name in DATASETS.values():
            assert prepare(name, Path(folder) / name, None)["status"] == "ok"
        yield Path(folder)


def train(python: str, folder: Path, data: Path, network: str, **factors: Any) -> list[dict[str, Any]]:
    folder.mkdir()
    return run(
        python,
        folder,
        workload=f"train-torch-{network}",
        factors={**TRAINING, **factors},
        data=str(data / DATASETS[network]),
    )


@pytest.mark.parametrize("network", sorted(PARAMETERS))
def test_training_is_valid_and_repeats_bit_by_bit(
    torch_python: str, tmp_path: Path, data: Path, network: str
) -> None:
    first = train(torch_python, tmp_path / "first", data, network)
    again = train(torch_python, tmp_path / "again", data, network)
    facts = only(first, "check")["facts"]
    assert only(first, "check")["reasons"] == []
    assert facts["parameters"] == PARAMETERS[network]
    assert (
        facts["samples_seen"] == facts["samples_expected"] == 2 * 192
    )  # 200 samples are three batches of 64
    assert facts["loss_hex"] == [float(loss).hex() for loss in facts["losses"]]
    assert only(again, "check")["facts"] == facts
    samples = [(e["metric"], e["phase"], e["epoch"], e["index"]) for e in first if e["event"] == "sample"]
    assert samples == [
        (metric, phase, epoch, index)
        for epoch, phase in enumerate(("first", "steady"))
        for metric, index in (
            ("step_seconds", 0),
            ("step_seconds", 1),
            ("step_seconds", 2),
            ("epoch_seconds", 0),
        )
    ]
    software = only(first, "fingerprint")["software"]
    assert (software["threads"], software["interop_threads"]) == (effective_cpus(), 1)


def test_loader_processes_change_nothing_but_where_data_are_read(
    torch_python: str, tmp_path: Path, data: Path
) -> None:
    alone = train(torch_python, tmp_path / "alone", data, "alexnet")
    helped = train(torch_python, tmp_path / "helped", data, "alexnet", workers=1)
    assert only(helped, "check")["facts"] == only(alone, "check")["facts"]


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ({"workers": 1_000}, "effective CPUs"),
        ({"samples": 60_001}, "samples: 60001 is not possible; cifar10 has 1 … 50000"),
        ({"batch": 201}, "batch: 201 is more than samples=200"),
        ({"batch": 200, "epochs": 1}, "one step in all"),
    ],
)
def test_training_that_cannot_be_is_refused(
    torch_python: str, tmp_path: Path, data: Path, factors: dict[str, Any], says: str
) -> None:
    found = train(torch_python, tmp_path / "run", data, "alexnet", **factors)
    assert [event["event"] for event in found] == ["start", "error"]
    assert says in found[1]["message"]


#: asks this process's own effective CPUs, as the measuring side does, and runs the worker with that many threads
IN_CONTAINER = """
import json, os, sys
from tare.worker.cpus import effective_cpus
path = "/tare/request.json"
request = json.load(open(path))
request["threads"] = effective_cpus()
json.dump(request, open(path, "w"))
{patch}
from tare.worker.run import main
sys.exit(main([path], 1))
"""


def train_in_container(
    python: str, image: str, folder: Path, data: Path, patch: str = "", factors: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """Train in a container that sees this machine's programs and the stack's venv, and nothing else of it."""
    request = body(
        "/tare", workload="train-torch-alexnet", factors={**TRAINING, **(factors or {})}, data="/data/cifar10"
    )
    (folder / "request.json").write_text(json.dumps(request))
    venv = Path(python).parents[1]
    own = [path for path in ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", str(venv)) if Path(path).exists()]
    shared = [*(f"{path}:{path}:ro" for path in own), f"{SRC}:/src:ro", f"{data}:/data:ro"]
    client = docker.from_env()
    try:
        with contextlib.suppress(docker.errors.ContainerError):
            client.containers.run(
                image,
                [python, "-c", IN_CONTAINER.format(patch=patch)],
                labels={LABEL: "test"},
                user=f"{os.getuid()}:{os.getgid()}",
                environment={"PYTHONPATH": "/src", "PYTHONDONTWRITEBYTECODE": "1"},
                volumes=[*shared, f"{folder}:/tare"],
                remove=True,
                **options,
            )
    finally:
        client.close()
    return events(folder)


@pytest.mark.engine
def test_case_16_a_quota_of_one_cpu_means_one_thread(
    torch_python: str, tiny_image: str, tmp_path: Path, data: Path
) -> None:
    found = train_in_container(torch_python, tiny_image, tmp_path, data, nano_cpus=10**9)
    assert only(found, "check")["reasons"] == []
    fingerprint = only(found, "fingerprint")
    process, software = fingerprint["process"], fingerprint["software"]
    assert (process["quota_cpus"], process["effective_cpus"]) == (1.0, 1)
    assert len(process["affinity"]) == len(os.sched_getaffinity(0))  # what os.cpu_count() and nproc go by
    assert (software["threads"], software["interop_threads"]) == (1, 1)


@pytest.mark.engine
def test_case_22_loader_processes_are_refused_where_shared_memory_is_small(
    torch_python: str, tiny_image: str, tmp_path: Path, data: Path
) -> None:
    found = train_in_container(
        torch_python, tiny_image, tmp_path, data, factors={"workers": 1}, shm_size="1m"
    )
    assert [event["event"] for event in found] == ["start", "error"]
    needed = 2 * 1 * 2 * 64 * (4 * 3072 + 8)
    assert found[1]["kind"] == "LoaderError"
    assert found[1]["message"].startswith(
        f"shm-too-small: workers=1 needs {needed} bytes free in /dev/shm, there are 1048576; use workers=0"
    )


#: takes the check before away, so that what is left is what the field saw
UNCHECKED = (
    "import os, tare.workloads.train_torch as t; t.check_workers = lambda *_: None; t.LOADER_TIMEOUT = 5"
)
DIES = "; t.Records.__getitems__ = lambda *_: os.kill(os.getpid(), {signal})"

RAISES = "\ndef read(*_): raise ValueError('no such sample')\nt.Records.__getitems__ = read"


@pytest.mark.engine
@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (
            "",
            r"shm-too-small: a loader process died or hung \(DataLoader timed out after 5 seconds\); use .*",
        ),
        (
            DIES.format(signal=7),
            r"shm-too-small: a loader process died or hung \(.*signal: Bus error.*; use .*",
        ),
        (DIES.format(signal=9), r"a loader process died or hung \(.*signal: Killed.*; use workers=0.*"),
        (RAISES, r"Caught ValueError in DataLoader worker process 0\..*no such sample.*"),
    ],
    ids=["hangs", "bus error", "killed", "raises"],
)
def test_case_22_a_loader_process_that_fails_is_named_by_its_cause(
    torch_python: str, tiny_image: str, tmp_path: Path, data: Path, patch: str, says: str
) -> None:
    found = train_in_container(
        torch_python,
        tiny_image,
        tmp_path,
        data,
        UNCHECKED + patch,
        {"workers": 1, "batch": 100},
        shm_size="1m",
    )
    assert found[-1]["event"] == "error", found[-1]
    assert re.fullmatch(says, found[-1]["message"], re.DOTALL), found[-1]["message"]
    assert found[-1]["kind"] == ("ValueError" if "Caught" in says else "LoaderError")


def test_data_are_untouched_until_go_and_then_read_from_the_device(
    torch_python: str, tmp_path: Path, data: Path
) -> None:
    files = sorted((data / "cifar10/files").iterdir())
    assert evict(files).verified
    for name in ("ready", "go"):
        os.mkfifo(tmp_path / name)
    request = body(
        str(tmp_path),
        workload="train-torch-alexnet",
        factors=TRAINING,
        data=str(data / "cifar10"),
        handshake=True,
    )
    process = start(torch_python, tmp_path, request)
    assert heard(tmp_path / "ready", process) == "ready\n"
    assert resident_share(files) == 0.0
    with (tmp_path / "go").open("w") as go:
        go.write("go\n")
    assert process.wait(timeout=300) == 0
    assert resident_share(files) > 0
    found = events(tmp_path)
    facts = only(found, "check")["facts"]
    epochs = [event for event in found if event.get("metric") == "epoch_seconds"]
    assert facts["bytes_expected"] == 192 * 3073
    assert epochs[0]["device_read_bytes"] >= 0.9 * facts["bytes_expected"]
