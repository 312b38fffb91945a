"""Handing over to Snakemake: its lock is cleared only when its owner is dead, then this process becomes Snakemake."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tare.setup.environment import SetupError

OWNER = Path(".snakemake/tare-owner.json")
LOCKS = Path(".snakemake/locks")


def start_time(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return when a process started, in clock ticks since boot (proc(5)); None when it is dead or a zombie."""
    try:
        fields = (proc / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def living_owner(checkout: Path, proc: Path = Path("/proc"), host: str | None = None) -> str | None:
    """Return who holds Snakemake's lock, for a person, when it may be alive; None when it is dead for certain.

    The owner file is written by the workflow's start handler; a Snakemake that has not got there yet is found
    by its working directory. An owner on another host cannot be asked and counts as alive.
    """
    host = host or socket.gethostname()
    try:
        owner = json.loads((checkout / OWNER).read_text(encoding="utf-8"))
        pid, there, started = int(owner["pid"]), str(owner["host"]), int(owner["starttime"])
    except (OSError, ValueError, KeyError, TypeError):
        return _snakemake_in(checkout, proc)
    if there != host:
        return f"process {pid} on host {there}"
    if start_time(pid, proc) == started:
        return f"process {pid}"
    return _snakemake_in(checkout, proc)


def _snakemake_in(checkout: Path, proc: Path) -> str | None:
    for folder in proc.glob("[0-9]*"):
        try:
            argv = (folder / "cmdline").read_bytes().split(b"\0")
            here = os.path.realpath(folder / "cwd") == os.path.realpath(checkout)
        except OSError:
            continue
        programs = {word.rpartition(b"/")[2] for word in argv[:3]}
        if here and b"snakemake" in programs and start_time(int(folder.name), proc) is not None:
            return f"process {folder.name}"
    return None


def locked(checkout: Path) -> bool:
    """Return whether Snakemake left, or holds, a lock in this checkout."""
    return any((checkout / LOCKS).glob("*.lock"))


def clear_dead_lock(checkout: Path, environ: Mapping[str, str]) -> None:
    """Remove Snakemake's lock when its owner is dead; raises ``SetupError`` naming a living one."""
    if not locked(checkout):
        return
    owner = living_owner(checkout)
    if owner:
        raise SetupError(
            f"a study is running in this folder already ({owner}). Wait for it, or end it with Ctrl-C or kill -INT; "
            "if that host is gone: .venv/bin/snakemake --unlock"
        )
    print("The last study was cut off; its lock is removed, finished blocks are kept.", flush=True)
    done = subprocess.run(
        [snakemake(checkout), "--unlock", "--quiet"],
        cwd=checkout,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise SetupError("Snakemake could not remove its lock (see above): .venv/bin/snakemake --unlock")


def snakemake(checkout: Path) -> str:
    """Return the path of the environment's Snakemake."""
    return str(checkout / ".venv" / "bin" / "snakemake")


def environment(checkout: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for Snakemake: as ``.venv/bin/activate`` makes it, without set-up's PYTHONPATH."""
    cleaned = {
        k: v for k, v in environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "MAKEFLAGS", "MAKELEVEL")
    }
    path = f"{checkout / '.venv' / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
    return {**cleaned, "VIRTUAL_ENV": str(checkout / ".venv"), "PATH": path}


def hand_over(checkout: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become ``snakemake --cores all <arguments>``: signals and the exit status are then Snakemake's own."""
    clean = environment(checkout, environ)
    clear_dead_lock(checkout, clean)
    os.chdir(checkout)
    argv = [snakemake(checkout), *_defaults(arguments), *arguments]
    os.execve(argv[0], argv, clean)


def _defaults(arguments: Sequence[str]) -> list[str]:
    """Return the options that the user left open: all cores, and what runs without why (a dry run tells why)."""

    def given(pattern: str) -> bool:
        return any(re.match(pattern, word) for word in arguments)

    cores = [] if given(r"(-[cj]|--cores|--jobs)(=|\d|$)") else ["--cores", "all"]
    told = given(r"(-n|--dry-run|-q|--quiet|--verbose|-p|--printshellcmds)(=|$)")
    # --keep-going (the default profile has it too) ends the list, which would swallow a target that follows
    return cores if told else ["--quiet", "reason", "host", "--keep-going", *cores]
