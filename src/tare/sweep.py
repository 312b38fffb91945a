"""Removing what dead measuring processes left: containers and volumes by label, processes by environment, network
namespaces by name.

Called with the machine lock held, before a block. What belongs to a living owner, to another host or to
nobody that can be told is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound

from tare import processes
from tare.identity import is_dead, owner_id
from tare.runtimes import engine, overlay_network, run_cgroups
from tare.runtimes.base import INSIDE_OUTPUT, LABEL, LABEL_GIVE_BACK, LABEL_OWNER, LABEL_RUN
from tare.runtimes.container_run import give_back
from tare.setup import engine_probe

__all__ = ["SweepError", "owner_id", "sweep"]

CONFLICT = 409
REMOVE_SECONDS = 30


class SweepError(OSError):
    """A leftover that cannot be removed: it would disturb the measurement; the message says what to do."""


def sweep() -> list[str]:
    """Remove containers, volumes, processes and networks of dead owners; return what was removed, a text for each.

    Raises ``SweepError`` for a leftover that stays. Without an engine that answers, only processes are looked at.
    """
    removed = []
    if engine_probe.probe().answers:
        api = engine.api()
        removed = _sweep_containers(api) + _sweep_volumes(api)
    return removed + _sweep_processes() + _sweep_networks() + _sweep_groups()


def _sweep_containers(api: docker.APIClient) -> list[str]:
    removed = []
    for container in api.containers(all=True, filters={"label": [LABEL, LABEL_OWNER]}):
        labels: Mapping[str, str] = container["Labels"]
        if is_dead(labels[LABEL_OWNER]):
            _remove(api, container)
            state = container.get("State", "left over")
            removed.append(f"container {container['Id'][:12]} of run {labels.get(LABEL_RUN, '?')} ({state})")
    return removed


def _remove(api: docker.APIClient, container: Mapping[str, Any]) -> None:
    identity = container["Id"]
    try:
        _remove_container(api, identity)
        user = container["Labels"].get(LABEL_GIVE_BACK)
        if user:
            _give_back(api, container, user)
    except NotFound:
        return
    except (DockerException, *engine.GONE) as error:
        raise SweepError(
            f"container {identity[:12]}, left by a dead run, cannot be removed: {error}; "
            f"remove it: docker rm --force {identity[:12]}"
        ) from None


def _remove_container(api: docker.APIClient, identity: str) -> None:
    try:
        api.remove_container(identity, force=True, v=True)
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        # Somebody else is removing it at this moment.
        api.wait(identity, timeout=REMOVE_SECONDS, condition="removed")


def _give_back(api: docker.APIClient, container: Mapping[str, Any], user: str) -> None:
    """Give the files of a run that was root of its container to the user whose run it was."""
    for mount in container.get("Mounts", []):
        if mount.get("Destination") == INSIDE_OUTPUT:
            give_back(
                api, container["ImageID"], mount["Source"], user, {LABEL: "sweep", LABEL_OWNER: owner_id()}
            )


def _sweep_volumes(api: docker.APIClient) -> list[str]:
    """Remove the named volumes of dead owners; their containers are gone by now."""
    removed = []
    for volume in api.volumes(filters={"label": [LABEL, LABEL_OWNER]})["Volumes"] or []:
        name, labels = volume["Name"], volume["Labels"]
        if is_dead(labels[LABEL_OWNER]):
            try:
                api.remove_volume(name, force=True)
            except NotFound:
                continue
            except (DockerException, *engine.GONE) as error:
                raise SweepError(
                    f"volume {name}, left by a dead run, cannot be removed: {error}; "
                    f"remove it: docker volume rm --force {name}"
                ) from None
            removed.append(f"volume {name} of run {labels.get(LABEL_RUN, '?')}")
    return removed


def _sweep_groups() -> list[str]:
    """Remove the control groups that crun made for dead owners; their processes have been ended."""
    removed = []
    for group in run_cgroups.left_over():
        try:
            run_cgroups.remove(group)
        except OSError as error:
            raise SweepError(
                f"control group {group}, left by a dead run, cannot be removed: {error}; end its processes"
            ) from None
        removed.append(f"control group {group}")
    return removed


def _sweep_processes() -> list[str]:
    def left_over(marks: Mapping[str, str]) -> bool:
        return is_dead(marks.get(processes.OWNER, ""))

    names = {pid: processes.marks(pid)[processes.RUN_ID] for pid in processes.find(left_over)}
    try:
        killed = processes.end(left_over)
    except (PermissionError, TimeoutError) as error:
        raise SweepError(
            f"a process left by a dead run cannot be ended: {error}; end it and try again"
        ) from None
    return [f"process {pid} of run {names.get(pid, '?')}" for pid in killed]


def _sweep_networks() -> list[str]:
    try:
        return overlay_network.sweep()
    except overlay_network.NetworkError as error:
        raise SweepError(
            f"a network namespace left by a dead run cannot be removed: {error}; remove it with that command"
        ) from None
