"""Starting a Docker engine where no service manager does: stale files first, then detached, then waiting for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tare.setup import engine_probe
from tare.setup.environment import SetupError

#: a cold engine on a busy machine took 20 s; beyond this something is wrong
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True)
class Daemon:
    """An engine to be started: its pid file, state folder, address and log, and options beyond those."""

    pidfile: Path = Path("/var/run/docker.pid")
    exec_root: Path = Path("/var/run/docker")
    address: str = f"unix://{engine_probe.DEFAULT_SOCKET}"
    log: Path = Path("/var/log/tare-dockerd.log")
    options: tuple[str, ...] = ()
    #: what starts the engine, e.g. ("unshare", "--net") for one that must not touch the machine's network
    starter: tuple[str, ...] = ()


def process_name(pid: int, proc: Path = Path("/proc")) -> str | None:
    """Return the name of a living process; None when it is dead or a zombie."""
    try:
        head, _, tail = (proc / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")
    except OSError:
        return None
    return None if tail.split()[0] in ("Z", "X") else head.partition("(")[2]


def _owner(pidfile: Path, proc: Path) -> str | None:
    try:
        return process_name(int(pidfile.read_text(encoding="utf-8")), proc)
    except (OSError, ValueError):
        return None


def stale_files(daemon: Daemon, proc: Path = Path("/proc")) -> list[Path]:
    """Return the files an engine left behind that keep the next from starting.

    A pid file counts as stale when its process is dead, or alive but something else (pids are used again).
    A living containerd of a killed dockerd is left alone: the next dockerd takes it over.
    """
    stale = []
    if daemon.pidfile.exists() and _owner(daemon.pidfile, proc) != "dockerd":
        stale.append(daemon.pidfile)
    folder = daemon.exec_root / "containerd"
    if _owner(folder / "containerd.pid", proc) != "containerd":
        names = ("containerd.pid", "docker-containerd.pid")
        stale += [path for path in (folder / name for name in names) if path.exists()]
        stale += sorted(folder.glob("*.sock")) + sorted(folder.glob("*.sock.ttrpc"))
    return stale


def tail(log: Path, lines: int = 8) -> str:
    """Return the last telling lines of an engine's log, indented and cut; empty when it cannot be read."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    telling = [line for line in text.splitlines() if "level=info" not in line and "level=debug" not in line]
    return "\n".join(f"    {line[:300]}" for line in telling[-lines:])


def start(daemon: Daemon, say: Callable[[str], None], patience: float = PATIENCE_SECONDS) -> None:
    """Start the engine detached from this process and return once it answers.

    Does nothing when it answers already; raises ``SetupError`` with the log's last lines when it ends or is late.
    """
    if engine_probe.ask(daemon.address).answers:
        return
    for path in stale_files(daemon):
        say(f"removing {path}, left behind by an engine that is gone")
        path.unlink(missing_ok=True)
    if _owner(daemon.pidfile, Path("/proc")) == "dockerd":
        say("an engine is starting already; waiting for it")
        _wait(daemon, None, patience)
    else:
        _wait(daemon, _launch(daemon), patience)


#: starts its arguments with their log and prints the pid; the starter's exit hands the engine to init, so that
#: it is no child of the workflow, which would wait for it or end it
_STARTER = """
import subprocess, sys
with open(sys.argv[1], "ab") as log:
    print(subprocess.Popen(sys.argv[2:], cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                           start_new_session=True).pid, flush=True)
"""


def _launch(daemon: Daemon) -> int:
    program = shutil.which("dockerd", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if program is None:
        raise SetupError("dockerd is not installed; apt-get install docker.io")
    argv = [*daemon.starter, program, "-H", daemon.address, "--pidfile", str(daemon.pidfile)]
    argv += ["--exec-root", str(daemon.exec_root), *daemon.options]
    daemon.log.parent.mkdir(parents=True, exist_ok=True)
    starter = [sys.executable, "-W", "ignore", "-c", _STARTER, str(daemon.log), *argv]
    return int(subprocess.run(starter, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _wait(daemon: Daemon, pid: int | None, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not engine_probe.ask(daemon.address).answers:
        if pid is not None and process_name(pid) is None:
            raise SetupError(_failure(daemon, "ended"))
        if time.monotonic() > deadline:
            raise SetupError(_failure(daemon, f"did not answer within {patience:.0f} s"))
        time.sleep(0.2)


def _failure(daemon: Daemon, what: str) -> str:
    return (
        f"the Docker engine {what}; its log, {daemon.log}, ends with:\n{tail(daemon.log)}\n"
        "    Mend that, or start an engine yourself (it must answer at "
        f"{daemon.address}), then run it again"
    )


def start_by_systemd(say: Callable[[str], None], patience: float = PATIENCE_SECONDS) -> None:
    """Have systemd start the engine, and return once it answers; raises ``SetupError`` with the command to look."""
    say("systemctl start docker")
    if subprocess.run(["systemctl", "start", "docker"]).returncode != 0:
        raise SetupError("systemd could not start the Docker engine; see: journalctl -u docker")
    _wait(Daemon(), None, patience)
