"""`docker`, `docker-pure`, `docker-hardened`: the same class with other options, started through the engine's API.

The worker's output goes to files by a redirection inside the container, made before the worker's first
instruction: the engine's log driver would take CPU while the run is timed. `env -i` gives the worker exactly
the environment of the specification, without what the engine (HOSTNAME) and an image add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.runtimes import engine, launch
from tare.runtimes.base import (
    INSIDE_DATA,
    INSIDE_FILES,
    INSIDE_OUTPUT,
    LABEL,
    LABEL_GIVE_BACK,
    LABEL_OWNER,
    LABEL_RUN,
    LaunchSpec,
    Running,
    RunRequest,
    Stack,
    Unavailable,
)

_REDIRECT = f'exec /usr/bin/env -i "$@" >{INSIDE_OUTPUT}/{launch.STDOUT} 2>{INSIDE_OUTPUT}/{launch.STDERR}'
#: $0 of the shell is `tare`, what follows are its arguments
ENTRYPOINT = ("/bin/sh", "-c", _REDIRECT, "tare")


#: where what a run executes and loads lies in a Debian with a merged /usr (in /usr/sbin the engine puts its init) …
EXECUTED = ("usr/bin", "usr/lib", "usr/local")
#: … because these are links into it
_LINKS = ("bin", "sbin", "lib", "lib64")
#: network mode → what a second container of the same kind is reached by
_NETWORKS = {"host": "loopback", "none": "none"}

#: what a GPU workload asks of the NVIDIA container toolkit: CUDA, and nvidia-smi for the state of the GPU
GPU_CAPABILITIES = ("gpu", "compute", "utility")


@dataclass(frozen=True)
class Container:
    """One way of starting a container. What is None or empty is left to the engine's defaults."""

    name: str
    init: bool | None = True
    as_user: bool = True
    read_only_root: bool = False
    tmpfs: Mapping[str, str] | None = None
    security_opt: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    network_mode: str | None = None
    pid_mode: str | None = None
    ipc_mode: str | None = None
    uts_mode: str | None = None
    log_driver: str | None = None
    memory_bytes: int | None = None
    cpus: float | None = None
    cpuset: str | None = None
    shm_bytes: int | None = None
    #: bind the root filesystem's programs and libraries over those of the image's overlay
    bound_root: bool = False

    def unavailable(self, stack: Stack) -> Unavailable | None:
        """Return why the engine cannot start the stack's image, or None."""
        if stack.image is None:
            return launch.missing(stack, "image")
        return (
            engine.unavailable()
            or engine.image_missing(stack.image, stack.name)
            or (_unusable_root(stack) if self.bound_root else None)
        )

    def specify(self, request: RunRequest) -> LaunchSpec:
        """Return the launch: every option the engine is given, by the name it has here. Pure."""
        environment = launch.environment(request, INSIDE_OUTPUT)
        argv = launch.argv(launch.INSIDE_PYTHON, INSIDE_OUTPUT)
        return LaunchSpec(
            runtime=self.name,
            kind="container",
            argv=argv,
            environment=environment,
            cwd=INSIDE_OUTPUT,
            output=INSIDE_OUTPUT,
            data=None if request.data is None else INSIDE_DATA,
            files=launch.files(INSIDE_OUTPUT) if request.location == "bind" else INSIDE_FILES,
            network=_NETWORKS.get(self.network_mode or "", "interface"),
            options={
                **launch.user_options(request),
                "image": request.stack.image,
                "entrypoint": ENTRYPOINT,
                "command": (*(f"{name}={value}" for name, value in environment.items()), *argv),
                "user": f"{request.uid}:{request.gid}" if self.as_user else None,
                "labels": self._labels(request),
                "mounts": launch.folders(request),
                "volume": f"tare-{request.run_id}" if request.location == "volume" else None,
                "bound_root": _bound(request.stack.rootfs) if self.bound_root else (),
                **self._isolation(),
                **({"gpus": GPU_CAPABILITIES} if request.gpus else {}),
            },
        )

    def _labels(self, request: RunRequest) -> dict[str, str]:
        labels = {LABEL: request.study, LABEL_RUN: request.run_id, LABEL_OWNER: request.owner}
        if not self.as_user:
            labels[LABEL_GIVE_BACK] = f"{request.uid}:{request.gid}"
        return labels

    def _isolation(self) -> dict[str, Any]:
        return {
            "init": self.init,
            "read_only_root": self.read_only_root,
            "tmpfs": dict(self.tmpfs or {}),
            "security_opt": self.security_opt,
            "cap_drop": self.cap_drop,
            "cap_add": self.cap_add,
            "network_mode": self.network_mode,
            "pid_mode": self.pid_mode,
            "ipc_mode": self.ipc_mode,
            "uts_mode": self.uts_mode,
            "log_driver": self.log_driver,
            "memory_bytes": self.memory_bytes,
            "cpus": self.cpus,
            "cpuset": self.cpuset,
            "shm_bytes": self.shm_bytes,
        }

    def start(self, spec: LaunchSpec) -> Running:
        """Create and start it."""
        from tare.runtimes.container_run import start_container  # the only part that talks to an engine

        return start_container(spec)


def _bound(root: Path | None) -> tuple[dict[str, Any], ...]:
    """Return the mounts after which nothing that a run executes or loads comes from the overlay."""
    return tuple(
        {"source": f"{root}/{folder}", "target": f"/{folder}", "read_only": True} for folder in EXECUTED
    )


def _unusable_root(stack: Stack) -> Unavailable | None:
    """Return why binding ``EXECUTED`` would leave programs in the overlay, or None."""
    if stack.rootfs is None:
        return launch.missing(stack, "rootfs")
    absent = [folder for folder in EXECUTED if not (stack.rootfs / folder).is_dir()]
    own = [
        name for name in _LINKS if (stack.rootfs / name).is_dir() and not (stack.rootfs / name).is_symlink()
    ]
    if absent or own:
        what = f"lacks /{', /'.join(absent)}" if absent else f"has programs in /{', /'.join(own)} too"
        return Unavailable(
            f"the root filesystem {stack.rootfs} of stack {stack.name} {what}",
            "build the stack on a Debian with everything below /usr, or leave this variant out",
        )
    return None


#: design.md §2: the engine's defaults plus exactly our label, an init, the user, the output mount (and the data's)
DOCKER = Container("docker")
#: without init and user. The label stays: without it a leftover could not be told from the user's own containers.
#: The run is root of the container; its files are given back to the user after the exit, outside every timed region.
DOCKER_PURE = Container("docker-pure", init=None, as_user=False)
DOCKER_HARDENED = Container(
    "docker-hardened",
    read_only_root=True,
    tmpfs={"/tmp": "rw,noexec,nosuid,nodev,mode=1777"},
    security_opt=("no-new-privileges",),
    cap_drop=("ALL",),
    network_mode="none",
)
