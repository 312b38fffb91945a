"""What set-up has to know about the machine, gathered once; the plan is computed from this alone."""

from __future__ import annotations

import grp
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tare import paths
from tare.setup import capabilities, engine_probe, environment, needs, pythons

ENGINE_STORE = Path("/var/lib/docker")


@dataclass(frozen=True)
class Disk:
    """A wanted folder and its file system: device number, nearest folder that exists, free bytes, writable here."""

    device: int
    folder: str
    free: int
    wanted: str
    writable: bool = True


@dataclass(frozen=True)
class Facts:
    """A machine as set-up sees it. ``disks`` maps the places of ``needs.Space`` to file systems.

    ``bootstrap``: Debian will be bootstrapped here; ``built``: the stacks' images are there already.
    """

    root: bool
    user: str
    os_name: str
    debian_like: bool
    systemd: bool
    terminal: bool
    may_change_system: bool
    engine: engine_probe.EngineState
    engine_is_default: bool
    engine_installed: bool
    in_docker_group: bool
    missing: tuple[needs.Package, ...]
    has_subids: bool
    pythons: tuple[pythons.Python, ...]
    venv: environment.VenvState
    bootstrap: bool
    built: bool
    disks: Mapping[str, Disk] = field(default_factory=dict)
    #: a socket of a rootless engine that answers although DOCKER_HOST does not name it
    rootless_socket: str | None = None


def gather(checkout: Path, goal: str, environ: Mapping[str, str], configs: Sequence[Path]) -> Facts:
    """Return the facts of this machine for ``goal`` (``study`` or ``test``); starts a few short processes."""
    is_root = os.geteuid() == 0
    built = _built(checkout)
    bootstrap = needs.bootstraps(configs) and (goal == "test" or not built)
    release = os_release(Path("/etc/os-release"))
    venv = environment.state(checkout, goal)
    engine = engine_probe.probe(environ)
    return Facts(
        root=is_root,
        user=capabilities.user_name(),
        os_name=release.get("PRETTY_NAME", "an unknown system"),
        debian_like=bool({"debian", "ubuntu"} & {release.get("ID", ""), *release.get("ID_LIKE", "").split()})
        and shutil.which("apt-get") is not None,
        systemd=Path("/run/systemd/system").is_dir(),
        terminal=os.isatty(0) and os.isatty(1),
        may_change_system=environ.get("TARE_SYSTEM", "yes").lower() not in ("no", "0", "false"),
        engine=engine,
        engine_is_default=not environ.get("DOCKER_HOST"),
        engine_installed=_engine_program() is not None,
        in_docker_group=_listed_in_docker_group(),
        missing=needs.missing(
            Path("/"),
            not is_root or goal == "test",  # tests build as both
            bootstrap,
            is_root and (goal == "test" or needs.has_crun(configs)),
        ),
        has_subids=is_root or capabilities.has_subids(capabilities.user_name()),
        pythons=pythons.usable(environ) if venv.action == "make" else (),
        venv=venv,
        bootstrap=bootstrap,
        built=built,
        disks={
            "checkout": disk(checkout),
            "cache": disk(paths.cache_dir()),
            "engine": disk(ENGINE_STORE),
        },
        rootless_socket=None if engine.answers else _rootless(environ),
    )


def os_release(path: Path) -> dict[str, str]:
    """Return the entries of an os-release file; empty when there is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def disk(folder: Path) -> Disk:
    """Return the file system that ``folder`` is on, or will be on once it is made."""
    nearest = folder
    while not os.path.exists(nearest):  # noqa: PTH110 (Path.exists raises where a parent is closed to us)
        nearest = nearest.parent
    free = shutil.disk_usage(nearest).free
    return Disk(nearest.stat().st_dev, str(nearest), free, str(folder), os.access(nearest, os.W_OK))


def _engine_program() -> str | None:
    return shutil.which("dockerd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/bin")


def _listed_in_docker_group() -> bool:
    """Whether the group lists the user, who then only has to log in again."""
    try:
        return capabilities.user_name() in grp.getgrnam("docker").gr_mem
    except KeyError:
        return False


def _built(checkout: Path) -> bool:
    images = list((checkout / "results" / "software").glob("*/image.json"))
    return len(images) >= 2


def _rootless(environ: Mapping[str, str]) -> str | None:
    runtime = environ.get("XDG_RUNTIME_DIR")
    socket = Path(runtime, "docker.sock") if runtime else None
    try:
        if socket is None or not stat.S_ISSOCK(socket.stat().st_mode):
            return None
    except OSError:
        return None
    return f"unix://{socket}" if engine_probe.ask(f"unix://{socket}").answers else None
