"""Starting a run through crun: the bundle and the root are mounted where nobody else sees them.

The forked child enters a private mount namespace, puts config.json, the root and crun's own state on file systems
mounted there, and becomes ``crun run``. Whatever ends the run, those mounts end with its last process; what lies on
the disk (the overlay's upper folder, crun's complaints) is one folder beside the run's output.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.processes import OWNER, RUN_ID
from tare.runtimes import engine, mounts, run_cgroups, rungs
from tare.runtimes.base import LaunchError, LaunchSpec, Outcome
from tare.runtimes.crun import PROGRAM, version
from tare.runtimes.process import ProcessRunning, ending, oom_kills, start_process, tail
from tare.software.safe_delete import remove_tree

BOX, LOG, UPPER, WORK = "box", "crun.log", "upper", "work"
#: the container's name for crun, whose state nobody else sees
CONTAINER = "tare"


def start_crun(spec: LaunchSpec) -> ProcessRunning:
    """Start ``spec``; raises ``LaunchError`` with the step that failed, and leaves nothing then."""
    options, bundle = spec.options, bundle_of(spec)
    if options["oci"] is None:
        raise LaunchError(
            f"{spec.runtime}: what the engine would tell its runtime was not asked; start the engine"
        )
    config = json.dumps(bundle_config(spec))
    # crun itself stays root and outside; its files of standard output are the worker's.
    crun = replace(spec, argv=crun_argv(spec), cwd="/", options={**options, "uid": 0, "gid": 0})
    try:
        _make_folders(bundle)
        return start_process(crun, lambda: _prepare(bundle, options, config), CrunRunning)
    except OSError as error:
        remove_tree(bundle)
        raise error if isinstance(error, LaunchError) else LaunchError(f"{spec.runtime}: {error}") from None


def bundle_of(spec: LaunchSpec) -> Path:
    """Return the folder beside the run's output (of the machine) that takes what crun needs on a disk."""
    output = Path(spec.options["stdout"]).parent
    return output.with_name(f"{output.name}.bundle")


def _group(spec: LaunchSpec) -> str | None:
    marks = spec.environment
    return run_cgroups.group_of(marks[RUN_ID], marks[OWNER]) if spec.options["own_group"] else None


def crun_argv(spec: LaunchSpec) -> tuple[str, ...]:
    """Return the command line of crun. Without a group of its own the run stays in that of the measuring process."""
    bundle = bundle_of(spec)
    box = bundle / BOX
    manager = "cgroupfs" if spec.options["own_group"] else "disabled"
    return (
        shutil.which(PROGRAM) or PROGRAM,
        f"--root={box}/state",
        f"--log={bundle / LOG}",
        f"--cgroup-manager={manager}",
        "run",
        f"--bundle={box}",
        CONTAINER,
    )


def bundle_config(spec: LaunchSpec) -> dict[str, Any]:
    """Return config.json of the run's bundle."""
    options = spec.options
    return rungs.completed(
        options["oci"],
        root=str(bundle_of(spec) / BOX / "root"),
        argv=spec.argv,
        environment=spec.environment,
        cwd=spec.cwd,
        user=(options["uid"], options["gid"]),
        mounts=options["mounts"],
        cgroup=_group(spec),
    )


def _make_folders(bundle: Path) -> None:
    for folder in (bundle, bundle / BOX, bundle / UPPER, bundle / WORK):
        folder.mkdir()
    bundle.chmod(0o711)  # a user namespace's root of the run comes through
    (bundle / UPPER).chmod(0o755)  # becomes the mode of the root folder, as in an image


def _prepare(bundle: Path, options: Mapping[str, Any], config: str) -> None:
    """Mount the bundle and write it; in the child, which is root."""
    box = bundle / BOX
    mounts.leave_machine()
    mounts.hide_unified()
    mounts.mount_one({"kind": "tmpfs", "target": str(box)})
    (box / "root").mkdir(mode=0o755)
    if options["overlay"]:
        mounts.mount_overlay(options["root"], str(bundle / UPPER), str(bundle / WORK), str(box / "root"))
    else:
        source, target = options["root"], str(box / "root")
        mounts.mount_one({"kind": "bind", "source": source, "target": target, "read_only": True})
    (box / "config.json").write_text(config, encoding="utf-8")
    for name in ("stdout", "stderr"):
        os.chown(options[name], options["uid"], options["gid"])


class CrunRunning(ProcessRunning):
    """A run that is a child of crun, which is a child of ours (see ``Running``)."""

    def __init__(self, popen: subprocess.Popen[bytes], spec: LaunchSpec, requested_ns: int) -> None:
        super().__init__(popen, spec, requested_ns)
        self._bundle = bundle_of(spec)
        self._group = _group(spec)

    def _judge(self, code: int, exited_ns: int) -> Outcome:
        """crun ends as its container did, 128 + n after signal n; what crun itself has to say is in its log."""
        if code < 0:
            return replace(super()._judge(code, exited_ns), facts=_facts())
        oom = code - 128 == signal.SIGKILL and oom_kills() > self._oom_before
        parts = ending(code, oom)
        if code != 0 and (said := tail(self._bundle / LOG)):
            parts.append(f"crun: {said}")
        return Outcome(code, self._requested_ns, exited_ns, ": ".join(parts), oom, _facts())

    def close(self) -> None:
        """End what is left of the run; remove its control groups and its bundle."""
        if self.exit_fd < 0:
            return
        super().close()
        if self._group is not None:
            run_cgroups.remove(self._group)
        remove_tree(self._bundle)


def _facts() -> dict[str, Any]:
    return {"crun": version(), "engine": dict(engine.facts())}
