"""What every runtime shares: a request in, a launch specification out (pure), and the protocol of a running process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

#: labels of every container and image of this project; only what carries them is ever removed
LABEL = "tare"
LABEL_RUN = "tare.run"
LABEL_OWNER = "tare.owner"  # "<host>:<pid>:<start time in ticks>" of the measuring process
LABEL_GIVE_BACK = "tare.give_back"  # "uid:gid" that the output belongs to, where the run itself is root

#: where the output and data folders appear inside an image or root filesystem (both exist in every image)
INSIDE_OUTPUT = "/tare"
INSIDE_DATA = "/data"
#: where a container's own files go that are neither: writable for every user in each Debian image
INSIDE_FILES = "/var/tmp"
#: moments of a start: the container exists, not started; the engine's call to start it has returned
CREATED, STARTED = "created_ns", "started_ns"
#: roles of two runs that are each other's peer (tare.peer)
SERVER, CLIENT = "server", "client"
#: folder of the test files inside the output folder
FILES = "files"


@dataclass(frozen=True)
class Stack:
    """The built forms of one stack; a form that could not be built is None and ``missing`` says why."""

    name: str
    host_python: str | None = None
    image: str | None = None  # image id, never a tag
    digest: str | None = None  # content digest, sha256:…
    rootfs: Path | None = None
    lock_sha256: str | None = None
    missing: Mapping[str, str] = field(
        default_factory=dict
    )  # form (host, image, rootfs) → reason with remedy
    #: what the engine tells its OCI runtime for `docker`, normalised; only where a runtime of the block needs it
    engine_spec: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunRequest:
    """One run to be started. Paths are the machine's own; ``environment`` is the same in every runtime."""

    run_id: str
    study: str
    stack: Stack
    output: Path
    data: Path | None
    worker_wheel: str  # file name inside ``output``
    environment: Mapping[str, str]
    uid: int
    gid: int
    owner: str
    gpus: bool = False  # hand the machine's GPUs to it
    location: str = "bind"  # where test files lie: bind, layer, volume (workloads.declaration.LOCATION)
    role: str | None = None  # SERVER or CLIENT, of a run with a peer


@dataclass(frozen=True)
class LaunchSpec:
    """Everything a starter needs, as plain data: compared in tests, recorded in the fingerprint."""

    runtime: str
    kind: str  # process | chroot | container | oci
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str
    output: str  # the output folder as the worker sees it
    data: str | None  # the data folder as the worker sees it
    files: str  # the folder of test files as the worker sees it
    network: (
        str  # what a peer of this runtime can be reached by: loopback | interface | interface:<name> | none
    )
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unavailable:
    """Why a runtime cannot be used here, and what would make it usable.

    ``lost``: what was built for it here is gone. That is a failure, not something this machine lacks.
    """

    reason: str
    remedy: str
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


class LaunchError(OSError):
    """A run that did not come to its start; the message is the reason of a failed run, for a person."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. ``detail`` is text for a person: the engine's message, the signal's name, OOM.

    ``exit_code`` is 128 + n after signal n in every runtime, and 125 when the engine went away.
    """

    exit_code: int
    requested_ns: int  # CLOCK_MONOTONIC just before the launch request
    exited_ns: int  # CLOCK_MONOTONIC when the exit was seen
    detail: str = ""
    oom_killed: bool = False
    facts: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the engine says it did; the fingerprint's launch
    #: CLOCK_MONOTONIC of the steps of the start that this runtime has (CREATED, STARTED)
    moments: Mapping[str, int] = field(default_factory=dict)


class Running(Protocol):
    """A started run. ``wait`` returns None when ``seconds`` pass first; ``kill`` ends all of it; both are idempotent.

    ``exit_fd`` becomes readable when the run has exited, so that a caller can select on it beside the handshake FIFO.
    ``kill`` and ``close`` also end what the run left running.
    """

    exit_fd: int

    def wait(self, seconds: float | None = None) -> Outcome | None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class RuntimeClass(Protocol):
    """One way of starting a process of a stack."""

    @property
    def name(self) -> str:
        """The runtime's name in config and tables."""
        ...

    def unavailable(self, stack: Stack) -> Unavailable | None:
        """Return why this machine cannot start ``stack`` this way, or None."""
        ...

    def specify(self, request: RunRequest) -> LaunchSpec:
        """Return the launch specification; pure: no process, no file, no engine is touched."""
        ...

    def start(self, spec: LaunchSpec) -> Running:
        """Start it; the clock of ``requested_ns`` is read first thing. Raises ``LaunchError``."""
        ...
