"""Installing Debian packages with apt-get as the machine has it configured: nothing about mirrors stands here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tare.setup.environment import SetupError

LISTS = Path("/var/lib/apt/lists")
#: waits for another apt-get (unattended upgrades) instead of failing
COMMON = ("apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=300")

AptRunner = Callable[[Sequence[str], Mapping[str, str]], int]


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command with its output on this terminal; return its exit status."""
    return subprocess.run(argv, env=dict(environ), stdin=subprocess.DEVNULL).returncode


def have_lists(lists: Path = LISTS) -> bool:
    """Return whether apt has any package list; a fresh container image has none."""
    return any(lists.glob("*_Packages*")) or any(lists.glob("*_binary-*"))


def install(packages: Sequence[str], run: AptRunner = run, lists: Path = LISTS) -> None:
    """Install ``packages``; the lists are fetched once, when there are none or when they turn out to be too old.

    Raises ``SetupError`` naming the command to repeat by hand.
    """
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = [*COMMON, "install", "--no-install-recommends", *packages]
    fresh = not have_lists(lists)
    if fresh:
        run([*COMMON, "update"], environ)
    if run(command, environ) == 0:
        return
    if not fresh:
        run([*COMMON, "update"], environ)
        if run(command, environ) == 0:
            return
    raise SetupError(
        f"apt-get could not install {' '.join(packages)} (see above). Is the network up, and do apt's sources "
        f"list a mirror that answers? By hand: apt-get update && {' '.join(command)}"
    )
