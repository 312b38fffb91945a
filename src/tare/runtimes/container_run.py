"""A started container: created and started, waited for by a thread, judged, its files given back, removed."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import docker
from docker.errors import APIError, DockerException
from docker.types import DeviceRequest, LogConfig, Mount

from tare.runtimes import engine
from tare.runtimes.base import CREATED, INSIDE_OUTPUT, LABEL, STARTED, LaunchError, LaunchSpec, Outcome
from tare.runtimes.process import ending

#: exit code of a run whose engine went away: docker's own for a failure of the engine
ENGINE_FAILED = 125
_REMOVE_SECONDS = 30


def start_container(spec: LaunchSpec) -> ContainerRunning:
    """Create and start ``spec``; raises ``LaunchError`` with the engine's message, and leaves nothing then."""
    requested_ns = time.monotonic_ns()
    container = ""
    try:
        api = engine.api()
        container = api.create_container(**creation(spec, api))["Id"]
        created_ns = time.monotonic_ns()
        api.start(container)
        moments = {CREATED: created_ns, STARTED: time.monotonic_ns()}
    except BaseException as error:
        if container:
            remove(api, container)
            _remove_volume(api, spec)
        if isinstance(error, (DockerException, *engine.GONE)):
            raise LaunchError(
                f"{spec.runtime}: the Docker engine cannot start the run: {_text(error)}"
            ) from None
        raise
    return ContainerRunning(api, container, spec, requested_ns, moments)


def creation(spec: LaunchSpec, api: docker.APIClient) -> dict[str, Any]:
    """Return the arguments of ``create_container`` that say what the specification says, and no more."""
    options = spec.options
    cpus, log_driver = options["cpus"], options["log_driver"]
    host_config = api.create_host_config(
        init=options["init"],
        mounts=[*map(_bind, options["bound_root"]), *map(_bind, options["mounts"]), *_volume(spec)],
        read_only=options["read_only_root"] or None,
        tmpfs=options["tmpfs"] or None,
        security_opt=list(options["security_opt"]) or None,
        cap_drop=list(options["cap_drop"]) or None,
        cap_add=list(options["cap_add"]) or None,
        network_mode=options["network_mode"],
        pid_mode=options["pid_mode"],
        ipc_mode=options["ipc_mode"],
        uts_mode=options["uts_mode"],
        log_config=None if log_driver is None else LogConfig(type=log_driver),
        mem_limit=options["memory_bytes"],
        nano_cpus=None if cpus is None else int(cpus * 1e9),
        cpuset_cpus=options["cpuset"],
        shm_size=options["shm_bytes"],
        device_requests=_gpus(options.get("gpus")),
    )
    return {
        "image": options["image"],
        "entrypoint": list(options["entrypoint"]),
        "command": list(options["command"]),
        "user": options["user"],
        "labels": dict(options["labels"]),
        "working_dir": spec.cwd,
        "host_config": host_config,
    }


def _bind(mount: Mapping[str, Any]) -> Mount:
    return Mount(mount["target"], mount["source"], type="bind", read_only=mount["read_only"])


def _gpus(capabilities: Sequence[str] | None) -> list[DeviceRequest] | None:
    """Return what ``docker run --gpus all`` asks for, with these capabilities of the driver; None without any."""
    return [DeviceRequest(count=-1, capabilities=[list(capabilities)])] if capabilities else None


def _volume(spec: LaunchSpec) -> list[Mount]:
    """Return the mount of the run's own named volume, which the engine makes, labelled as ours; none without one."""
    name = spec.options["volume"]
    return (
        [] if name is None else [Mount(spec.files, name, type="volume", labels=dict(spec.options["labels"]))]
    )


class ContainerRunning:
    """A run that is a container (see ``Running``)."""

    def __init__(
        self,
        api: docker.APIClient,
        container: str,
        spec: LaunchSpec,
        requested_ns: int,
        moments: Mapping[str, int],
    ) -> None:
        self._api = api
        self._moments = moments
        self._container = container
        self._spec = spec
        self._requested_ns = requested_ns
        self._outcome: Outcome | None = None
        self.exit_fd, self._signal_fd = os.pipe2(os.O_CLOEXEC)
        self._watcher = threading.Thread(target=self._watch, name=f"wait {container[:12]}", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        try:
            self._outcome = self._await()
        finally:
            os.write(self._signal_fd, b".")

    def _await(self) -> Outcome:
        try:
            code = int(self._api.wait(self._container, timeout=None)["StatusCode"])
            exited_ns = time.monotonic_ns()
            inspected = self._api.inspect_container(self._container)
            self._give_back()
            return self._judge(code, exited_ns, inspected)
        except (DockerException, *engine.GONE) as error:
            text = f"the Docker engine went away or lost the run: {_text(error)}; start the engine and run it again"
            return Outcome(ENGINE_FAILED, self._requested_ns, time.monotonic_ns(), text)

    def _judge(self, code: int, exited_ns: int, inspected: Mapping[str, Any]) -> Outcome:
        state = inspected["State"]
        oom = bool(state.get("OOMKilled"))
        parts = ending(code, oom)
        if state.get("Error"):
            parts.append(str(state["Error"]))
        if code != 0 and (said := self._log()):
            parts.append(said)
        return Outcome(
            code,
            self._requested_ns,
            exited_ns,
            ": ".join(parts),
            oom,
            engine.launch_facts(inspected),
            self._moments,
        )

    def _log(self) -> str:
        """Return what the container said outside the worker's files: only the shell before it can have."""
        with suppress(DockerException, *engine.GONE):
            raw: bytes = self._api.logs(self._container, tail=5)
            return raw.decode("utf-8", "replace").strip()
        return ""

    def _give_back(self) -> None:
        options = self._spec.options
        if options["user"] is None and options["uid"] != 0:
            give_back(
                self._api,
                image=options["image"],
                folder=options["mounts"][0]["source"],
                user=f"{options['uid']}:{options['gid']}",
                labels=options["labels"],
            )

    def wait(self, seconds: float | None = None) -> Outcome | None:
        """Return how the run ended, or None when ``seconds`` pass first."""
        if self.exit_fd >= 0:
            poll = select.poll()
            poll.register(self.exit_fd, select.POLLIN)
            if not poll.poll(None if seconds is None else seconds * 1000):
                return None
        return self._outcome

    def kill(self) -> None:
        """End the container; nothing when it has ended already."""
        if self._outcome is None:
            with suppress(DockerException, *engine.GONE):
                self._api.kill(self._container)

    def close(self) -> None:
        """Remove the container, running or not, and give back the descriptors."""
        if self.exit_fd < 0:
            return
        self.kill()
        remove(self._api, self._container)
        _remove_volume(self._api, self._spec)
        self._watcher.join(_REMOVE_SECONDS)
        if not self._watcher.is_alive():  # else an engine that hangs: the thread still needs its pipe
            os.close(self.exit_fd)
            os.close(self._signal_fd)
        self.exit_fd = -1


def give_back(api: docker.APIClient, image: str, folder: str, user: str, labels: Mapping[str, str]) -> None:
    """Make ``user`` (uid:gid) the owner of all in ``folder``, by root in a container of ``image``.

    An ordinary user cannot do it otherwise. Raises ``docker.errors.DockerException`` when it does not work.
    """
    helper = api.create_container(
        image=image,
        entrypoint=["/bin/chown", "-R", "-h", user, INSIDE_OUTPUT],
        user="0:0",
        labels={name: value for name, value in labels.items() if name.startswith(LABEL)},
        host_config=api.create_host_config(
            mounts=[Mount(INSIDE_OUTPUT, folder, type="bind")], network_mode="none"
        ),
    )["Id"]
    try:
        api.start(helper)
        status = api.wait(helper)["StatusCode"]
        if status != 0:
            said = api.logs(helper, tail=3).decode("utf-8", "replace").strip()
            raise DockerException(f"files of the run in {folder} could not be given to {user}: {said}")
    finally:
        remove(api, helper)


def remove(api: docker.APIClient, container: str) -> None:
    """Remove a container; one that is gone, and an engine that is gone, leave it to the next sweep."""
    with suppress(DockerException, *engine.GONE):
        api.remove_container(container, force=True, v=True)


def _remove_volume(api: docker.APIClient, spec: LaunchSpec) -> None:
    """Remove the volume of a run whose container is gone, if it had one; else it is left to the next sweep."""
    if spec.options["volume"] is not None:
        with suppress(DockerException, *engine.GONE):
            api.remove_volume(spec.options["volume"], force=True)


def _text(error: BaseException) -> str:
    return (
        str(error.explanation or error) if isinstance(error, APIError) else str(error) or type(error).__name__
    )
