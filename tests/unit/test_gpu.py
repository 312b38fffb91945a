"""GPUs on the measuring side: skipped before anything is fetched, refused where no driver is, flagged when slowed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import docker
import pytest
from scripted_runtime import block_request
from test_runtime_specs import REQUEST

from tare import gpu, ground, runtimes
from tare.config import Base
from tare.runtimes.base import Unavailable
from tare.runtimes.container_run import creation
from tare.setup.capabilities import Capability
from tare.software import status
from tare.software.locks import StackLock
from tare.software.recipe import Recipe

HASH = "0" * 64
ABSENT = "no NVIDIA GPU here: nvidia-smi is not installed; get one"


def having(*names: str) -> Any:
    """A machine with some of the capabilities ``gpu`` and ``gpu_containers``."""
    whys = {"gpu": "no NVIDIA GPU here: nvidia-smi is not installed", "gpu_containers": "no toolkit"}
    return lambda name: Capability(name, name in names, "there" if name in names else whys[name], "get one")


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.capabilities, "detect", having())


def lock(folder: Path, *names: str) -> StackLock:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{name}==1 \\\n    --hash=sha256:{HASH}\n" for name in names)
    (folder / "s.lock.txt").write_text(f"# python 3.11 manylinux_2_28_x86_64\n{lines}")
    (folder / "s.debs.lock").write_text("# suite bookworm\n# snapshot 20261129T005313Z\n")
    (folder / "s.debs.in").write_text("suite: bookworm\n")
    return StackLock(folder, "s")


def test_only_locks_with_cuda_need_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, plain = lock(tmp_path / "a", "torch", "nvidia-cublas"), lock(tmp_path / "b", "torch", "numpy")
    monkeypatch.setattr(gpu.capabilities, "detect", having())
    assert gpu.missing_for(cuda) == ABSENT
    assert gpu.missing_for(plain) is None
    assert gpu.missing_for(StackLock(tmp_path, "absent")) is None
    monkeypatch.setattr(gpu.capabilities, "detect", having("gpu"))
    assert gpu.missing_for(cuda) is None


@pytest.mark.usefixtures("without_gpu")
def test_the_locks_of_the_repository(repository: Path) -> None:
    envs = repository / "envs"
    lacking = [
        path.name.removesuffix(".debs.in")
        for path in sorted(envs.glob("*.debs.in"))
        if gpu.missing_for(StackLock(envs, path.name.removesuffix(".debs.in")))
    ]
    assert lacking == ["torch-cuda"]


@pytest.mark.usefixtures("without_gpu")
def test_nothing_is_fetched_or_built_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("something was fetched or built")

    for name in ("fetch_wheels", "ensure_image", "ensure_host_form"):
        monkeypatch.setattr(status, name, never)
    cuda = lock(tmp_path / "envs", "torch", "nvidia-cublas")
    recipe = Recipe("torch-cuda", tmp_path, cuda, cuda, tmp_path, Base())
    log = tmp_path / "log"
    image = status.image_status(recipe, log)
    found = [
        status.wheels_status(recipe, log),
        image,
        status.rootfs_status(image, log),
        status.venv_status("torch-cuda", cuda, log),
    ]
    reasons = [f"{ABSENT}; then `make retry ARGS=--skipped`"]
    assert [(one["status"], one["reasons"]) for one in found] == [("skipped", reasons)] * 4


@pytest.mark.parametrize(
    ("names", "base", "says"),
    [
        ((), "host", "no NVIDIA GPU here"),
        ((), "docker", "no NVIDIA GPU here"),
        (("gpu",), "host", None),
        (("gpu",), "docker", "no toolkit; get one"),
        (("gpu", "gpu_containers"), "docker", None),
        (("gpu", "gpu_containers"), "docker-hardened", None),
        (("gpu", "gpu_containers"), "chroot", "the NVIDIA driver's libraries belong to the machine"),
        (("gpu", "gpu_containers"), "chroot-userns", "belong to the machine"),
        (("gpu", "gpu_containers"), "crun", "belong to the machine"),
    ],
)
def test_refusals(
    names: tuple[str, ...], base: str, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu.capabilities, "detect", having(*names))
    refused = gpu.refusal(base)
    assert (refused is None) == (says is None)
    assert says is None or says in str(refused)


def test_a_run_is_skipped_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when something else has failed: a machine without a GPU owes no GPU number."""
    asking = block_request(tmp_path / "given", workload="gpu-copy")
    standing = ground.Ground(
        stack=REQUEST.stack,
        statuses={"host": "failed"},
        data=None,
        data_facts={},
        data_failure=None,
        node={},
        threads=1,
        memory_bytes=1,
        worker_sha256="w",
    )
    monkeypatch.setattr(gpu, "refusal", lambda base: Unavailable(f"no GPU for {base}", "get one"))
    assert ground.refusal(asking, standing, "host") == ("skipped", "host: no GPU for host; get one")


def test_containers_are_handed_all_gpus_and_others_nothing() -> None:
    plain, asking = REQUEST, dataclasses.replace(REQUEST, gpus=True)
    client = docker.APIClient(base_url="unix:///nowhere", version="1.41")
    for name in ("docker", "docker-hardened"):
        runtime = runtimes.get(name)
        assert "DeviceRequests" not in creation(runtime.specify(plain), client)["host_config"]
        (asked,) = creation(runtime.specify(asking), client)["host_config"]["DeviceRequests"]
        assert (asked["Count"], asked["Capabilities"]) == (-1, [["gpu", "compute", "utility"]])
    assert runtimes.get("host").specify(asking) == runtimes.get("host").specify(plain)
    client.close()


def test_settings_without_the_serial_identity() -> None:
    values = ", ".join(["NVIDIA L4", "550.1", "GPU-1", *["[N/A]"] * 12])
    found = gpu.settings(lambda _: (0, f"{values}\n{values}\n"))
    assert [*found] == ["0", "1"]
    assert (found["1"]["model"], found["1"]["driver"], "uuid" in found["1"]) == ("NVIDIA L4", "550.1", False)
    assert gpu.settings(lambda _: (9, "no devices")) == {}


IDLE = {
    "persistence_mode": "Enabled",
    "utilisation": 0.0,
    "clock_reasons": "0x1",
    "sw_thermal_slowdown_seconds": 5.0,
}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ({}, {}, None),
        ({"utilisation": 0.05}, {}, None),
        (
            {"utilisation": 0.5},
            {},
            "disturbed: the GPU was busy for 50% of the time before the run (limit 5%)",
        ),
        ({"utilisation": 1.0, "persistence_mode": "Disabled"}, {}, None),
        ({"utilisation": None}, {}, None),
        (
            {},
            {"clock_reasons": "0x4"},
            "GPU: the power limit was reached under load; equal for every runtime",
        ),
        (
            {},
            {"clock_reasons": "0x40"},
            "disturbed: GPU: the hardware slowed the clocks down because of heat",
        ),
        ({"clock_reasons": "0x40"}, {}, None),  # before the run: not of it
        ({}, {"sw_thermal_slowdown_seconds": 5.25}, "because of heat for 0.25 s of the run"),
        ({}, {"sw_thermal_slowdown_seconds": 5.0005}, None),
        ({"sw_thermal_slowdown_seconds": None}, {"clock_reasons": "0x20"}, "because of heat under load"),
    ],
)
def test_flags(before: dict[str, Any], after: dict[str, Any], says: str | None) -> None:
    found = gpu.flags({"gpu_before": {**IDLE, **before}, "gpu_under_load": {**IDLE, **after}})
    assert len(found) == (0 if says is None else 1)
    assert says is None or says in found[0]


def test_no_flags_without_facts() -> None:
    assert gpu.flags({}) == []
    assert gpu.flags({"gpu_before": {}, "gpu_under_load": {}}) == []
