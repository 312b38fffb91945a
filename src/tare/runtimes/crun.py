"""`crun` and its variants: the engine's own features by an OCI runtime, on the files of `chroot`, without the engine.

The rungs of the ladder between `chroot` and `docker`. What a feature is comes from the engine itself
(``engine_spec``); which of them a variant has is data (``rungs``).
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tare.runtimes import chroot, engine, launch, rungs
from tare.runtimes.base import (
    INSIDE_DATA,
    INSIDE_FILES,
    INSIDE_OUTPUT,
    LaunchSpec,
    Running,
    RunRequest,
    Stack,
    Unavailable,
)

PROGRAM = "crun"
#: form of a stack beside host, image and rootfs: why there is no ``Stack.engine_spec``
ENGINE_SPEC = "engine_spec"


@dataclass(frozen=True)
class Crun:
    """Starts the worker in a stack's root filesystem by crun, as root of the machine."""

    name: str = PROGRAM
    without: tuple[str, ...] = ()
    added: rungs.Options = field(default_factory=rungs.Options)

    def unavailable(self, stack: Stack) -> Unavailable | None:
        """Return why this cannot be started here, or None."""
        privilege = chroot.root_privilege(
            self.name, "run as root, or leave the runtimes made from crun out of the config"
        )
        if privilege is not None:
            return privilege
        if shutil.which(PROGRAM) is None:
            return Unavailable("crun is not installed", "apt-get install crun")
        return chroot.unusable_root(stack) or _engine_lost(stack) or _no_spec(stack)

    def specify(self, request: RunRequest) -> LaunchSpec:
        """Return the launch: the OCI specification of this rung, the root and the folders of the run. Pure."""
        layer = request.location == "layer" and "overlay" not in self.without
        return LaunchSpec(
            runtime=self.name,
            kind="oci",
            argv=launch.argv(launch.INSIDE_PYTHON, INSIDE_OUTPUT),
            environment=launch.environment(request, INSIDE_OUTPUT),
            cwd=INSIDE_OUTPUT,
            output=INSIDE_OUTPUT,
            data=None if request.data is None else INSIDE_DATA,
            files=INSIDE_FILES if layer else launch.files(INSIDE_OUTPUT),
            network="loopback" if "network" in self.without else "none",
            options={
                **launch.user_options(request),
                **launch.streams(request.output),
                "root": str(request.stack.rootfs),
                "overlay": "overlay" not in self.without,
                "mounts": launch.folders(request),
                "own_group": "cgroup" not in self.without,
                "without": self.without,
                **asdict(self.added),
                "oci": self._oci(request.stack),
            },
        )

    def _oci(self, stack: Stack) -> dict[str, Any] | None:
        return None if stack.engine_spec is None else rungs.rung(stack.engine_spec, self.without, self.added)

    def start(self, spec: LaunchSpec) -> Running:
        """Prepare the bundle in a private mount namespace, and have crun run it."""
        from tare.runtimes.crun_run import start_crun

        return start_crun(spec)


def _engine_lost(stack: Stack) -> Unavailable | None:
    """Return why the engine cannot be asked about the stack's image; one that was there when it was built is lost."""
    if stack.image is None:
        return launch.missing(stack, "image")
    found = engine.unavailable() or engine.image_missing(stack.image, stack.name)
    return None if found is None else replace(found, lost=True)


def _no_spec(stack: Stack) -> Unavailable | None:
    return launch.missing(stack, ENGINE_SPEC) if stack.engine_spec is None else None


@functools.lru_cache(maxsize=1)
def version() -> str | None:
    """Return the first line of ``crun --version``, None where there is none; asked once per process."""
    program = shutil.which(PROGRAM)
    if program is None:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, cwd=Path("/"))
    return next(iter(told.stdout.splitlines()), None)
