"""The Docker engine of this machine: one client per process, its state, and what it says about itself."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Mapping
from typing import Any

import docker
import requests
import urllib3
from docker.errors import APIError, DockerException

from tare.runtimes.base import Unavailable
from tare.setup import engine_probe

#: what a call raises when the engine refuses, and when it goes away
GONE = (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, ConnectionError, TimeoutError)
CALL_SECONDS = 60


@functools.lru_cache(maxsize=1)
def api() -> docker.APIClient:
    """Return this process's client; made at the first call, closed when the process ends.

    Raises ``docker.errors.DockerException`` when no engine answers.
    """
    client = docker.APIClient(base_url=engine_probe.address(os.environ), version="auto", timeout=CALL_SECONDS)
    atexit.register(client.close)
    return client


def close() -> None:
    """Close this process's client; the next call of ``api`` makes a new one."""
    if api.cache_info().currsize:
        client = api()
        client.close()
        atexit.unregister(client.close)
    api.cache_clear()
    facts.cache_clear()


def unavailable() -> Unavailable | None:
    """Return why no container can be started by this user, or None."""
    state = engine_probe.probe()
    if state.state == "denied":
        return Unavailable(
            f"no permission to use the Docker engine at {state.address}: this user is not in group docker",
            "sudo usermod -aG docker $USER, then log in again",
        )
    if not state.answers:
        return Unavailable(
            state.detail, "start the Docker engine: sudo systemctl start docker (or `make study` as root)"
        )
    try:
        remapped = [o for o in facts()["security_options"] if o in ("name=rootless", "name=userns")]
    except DockerException as error:
        return Unavailable(
            f"the Docker engine does not say what it is: {error}", "update Docker to 20.10 or later"
        )
    if remapped:
        return Unavailable(
            f"the Docker engine maps users ({remapped[0].removeprefix('name=')}): "
            "a run under the same user id as on the host is not possible",
            "use an engine without user mapping: export DOCKER_HOST=unix:///var/run/docker.sock",
        )
    return None


def image_missing(image: str, stack: str) -> Unavailable | None:
    """Return why the image id of a stack cannot be started, or None."""
    try:
        api().inspect_image(image)  # type: ignore[no-untyped-call]
    except APIError as error:
        return Unavailable(
            f"the engine lacks image {image}: {error.explanation}",
            f"delete results/software/{stack}/image.json and run `make retry`",
            lost=True,
        )
    return None


@functools.lru_cache(maxsize=1)
def facts() -> Mapping[str, Any]:
    """Return what the engine says about itself: version, storage, cgroups, security, runtimes; once per process."""
    info = api().info()
    return {
        "version": info.get("ServerVersion"),
        "storage_driver": info.get("Driver"),
        "backing_file_system": dict(info.get("DriverStatus") or []).get("Backing Filesystem"),
        "cgroup_driver": info.get("CgroupDriver"),
        "cgroup_version": info.get("CgroupVersion"),
        "security_options": sorted(info.get("SecurityOptions") or []),
        "default_runtime": info.get("DefaultRuntime"),
        "runc": (info.get("RuncCommit") or {}).get("ID"),
        "containerd": (info.get("ContainerdCommit") or {}).get("ID"),
        "live_restore": info.get("LiveRestoreEnabled"),
        "swap_limit": info.get("SwapLimit"),
    }


def launch_facts(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine did for one container: the host configuration without its empty fields, and more.

    Nothing that is new in every run: no ids, no addresses, no times.
    """
    host_config = inspected.get("HostConfig") or {}
    return {
        "host_config": {name: value for name, value in sorted(host_config.items()) if value not in _EMPTY},
        "storage_driver": (inspected.get("GraphDriver") or {}).get("Name") or inspected.get("Driver"),
        "apparmor_profile": inspected.get("AppArmorProfile") or "",
        "mount_label": inspected.get("MountLabel") or "",
        "networks": sorted((inspected.get("NetworkSettings") or {}).get("Networks") or {}),
        "image_environment": sorted((inspected.get("Config") or {}).get("Env") or []),
        "engine": dict(facts()),
    }


_EMPTY: tuple[Any, ...] = (None, "", 0, False, [], {}, [0, 0])
