"""What the engine is asked for, and what is recorded of its answer: no engine is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from tare import runtimes
from tare.runtimes import engine
from tare.runtimes.base import RunRequest, Stack
from tare.runtimes.container import Container
from tare.runtimes.container_run import creation


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    client = docker.APIClient(base_url="unix:///nowhere.sock", version="1.41")
    yield client
    client.close()


def request() -> RunRequest:
    return RunRequest(
        run_id="r1",
        study="quick",
        stack=Stack("hpc", image="sha256:abc"),
        output=Path("/results/r1"),
        data=Path("/data-of-host"),
        worker_wheel="w.whl",
        environment={"TARE_RUN_ID": "r1", "TARE_OWNER": "h:1:2"},
        uid=1000,
        gid=1001,
        owner="h:1:2",
    )


def bind(source: str, target: str, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}


BOUND = Stack("hpc", image="sha256:abc", rootfs=Path("/cache/def"))
MOUNTS = [bind("/results/r1", "/tare", False), bind("/data-of-host", "/data", True)]
#: what the SDK itself always sends
SDK = {"NetworkMode": "default"}


@pytest.mark.parametrize(
    ("name", "user", "host_config"),
    [
        ("docker", "1000:1001", {"Init": True}),
        ("docker-pure", None, {}),
        (
            "docker-hardened",
            "1000:1001",
            {
                "Init": True,
                "ReadonlyRootfs": True,
                "Tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,mode=1777"},
                "SecurityOpt": ["no-new-privileges"],
                "CapDrop": ["ALL"],
                "NetworkMode": "none",
            },
        ),
    ],
)
def test_engine_is_asked_for_exactly_the_specification(
    api: docker.APIClient, name: str, user: str | None, host_config: dict[str, Any]
) -> None:
    spec = runtimes.get(name).specify(request())
    asked = creation(spec, api)
    assert asked.pop("host_config") == {**SDK, "Mounts": MOUNTS, **host_config}
    assert asked == {
        "image": "sha256:abc",
        "entrypoint": list(spec.options["entrypoint"]),
        "command": list(spec.options["command"]),
        "user": user,
        "labels": dict(spec.options["labels"]),
        "working_dir": "/tare",
    }


def test_limits_are_passed_on(api: docker.APIClient) -> None:
    spec = Container("limited", memory_bytes=1 << 30, cpus=1.5).specify(request())
    asked = creation(spec, api)["host_config"]
    assert (asked["Memory"], asked["NanoCpus"]) == (1 << 30, 1_500_000_000)


def test_everything_a_variant_toggles_is_passed_on(api: docker.APIClient) -> None:
    variant = Container(
        "toggled",
        init=False,
        cap_add=("SYS_PTRACE",),
        network_mode="host",
        pid_mode="host",
        ipc_mode="host",
        uts_mode="host",
        security_opt=("seccomp=unconfined",),
        log_driver="none",
        cpuset="0-1",
        shm_bytes=1 << 20,
        bound_root=True,
    )
    asked = creation(variant.specify(replace(request(), stack=BOUND)), api)["host_config"]
    assert asked == {
        "NetworkMode": "host",
        "Mounts": [
            *(bind(f"/cache/def{folder}", folder, True) for folder in ("/usr/bin", "/usr/lib", "/usr/local")),
            *MOUNTS,
        ],
        "Init": False,
        "CapAdd": ["SYS_PTRACE"],
        "PidMode": "host",
        "IpcMode": "host",
        "UTSMode": "host",
        "SecurityOpt": ["seccomp=unconfined"],
        "LogConfig": {"Type": "none", "Config": {}},
        "CpusetCpus": "0-1",
        "ShmSize": 1 << 20,
    }


def test_launch_facts_leave_out_what_is_empty_or_new_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "facts", lambda: {"version": "20.10"})
    inspected = {
        "Id": "0123456789ab",
        "State": {"Pid": 77},
        "HostConfig": {"Init": True, "Memory": 0, "CapDrop": None, "Binds": [], "NetworkMode": "default"},
        "GraphDriver": {"Name": "overlay2", "Data": {"UpperDir": "/var/lib/docker/x"}},
        "AppArmorProfile": "docker-default",
        "NetworkSettings": {"Networks": {"bridge": {"IPAddress": "172.17.0.2"}}},
        "Config": {"Env": ["PATH=/bin", "LANG=C"]},
    }
    assert engine.launch_facts(inspected) == {
        "host_config": {"Init": True, "NetworkMode": "default"},
        "storage_driver": "overlay2",
        "apparmor_profile": "docker-default",
        "mount_label": "",
        "networks": ["bridge"],
        "image_environment": ["LANG=C", "PATH=/bin"],
        "engine": {"version": "20.10"},
    }
    assert engine.launch_facts({})["host_config"] == {}


@pytest.mark.parametrize(
    ("security", "usable"),
    [
        (["name=seccomp,profile=default"], True),
        (["name=rootless"], False),
        (["name=seccomp,profile=default", "name=userns"], False),
    ],
)
def test_engine_that_maps_users_is_unavailable(
    security: list[str], usable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = engine.engine_probe.EngineState("answers", "unix:///x")
    monkeypatch.setattr(engine.engine_probe, "probe", lambda: state)
    monkeypatch.setattr(engine, "facts", lambda: {"security_options": security})
    found = engine.unavailable()
    assert (found is None) is usable
    if found:
        assert "under the same user id" in found.reason


def test_denied_socket_names_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    state = engine.engine_probe.EngineState("denied", "unix:///x", "permission denied on the engine's socket")
    monkeypatch.setattr(engine.engine_probe, "probe", lambda: state)
    text = str(engine.unavailable())
    assert "not in group docker; sudo usermod -aG docker $USER" in text


def test_a_volume_is_asked_for_with_our_labels(api: docker.APIClient) -> None:
    spec = runtimes.get("docker").specify(replace(request(), location="volume"))
    mounts = creation(spec, api)["host_config"]["Mounts"]
    assert mounts[:2] == MOUNTS
    assert mounts[2:] == [
        {
            "Type": "volume",
            "Source": "tare-r1",
            "Target": "/var/tmp",
            "ReadOnly": False,
            "VolumeOptions": {"Labels": {"tare": "quick", "tare.run": "r1", "tare.owner": "h:1:2"}},
        }
    ]


@pytest.mark.parametrize("location", ["bind", "layer"])
def test_without_a_volume_nothing_more_is_mounted(api: docker.APIClient, location: str) -> None:
    spec = runtimes.get("docker").specify(replace(request(), location=location))
    assert creation(spec, api)["host_config"]["Mounts"] == MOUNTS
