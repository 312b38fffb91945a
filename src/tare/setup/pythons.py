"""Finding the interpreter that the pipeline's environment is made from: the distribution's before one on PATH."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Snakemake 9 needs it
OLDEST = (3, 11)
MINORS = range(20, OLDEST[1] - 1, -1)
_ASK = "import sys; print(*sys.version_info[:2]); import venv, ensurepip; print('venv')"


@dataclass(frozen=True)
class Python:
    """An interpreter: where it is, its version, and whether it can make virtual environments."""

    path: str
    version: tuple[int, int]
    venv: bool

    @property
    def distribution(self) -> bool:
        """True when the interpreter is the distribution's own, so that python3-venv completes it."""
        return self.path.startswith("/usr/bin/")


def candidates(environ: Mapping[str, str]) -> Iterable[str]:
    """Yield the paths to try, in order of preference, without those that do not exist."""
    names = ("python3", *(f"python3.{minor}" for minor in MINORS))
    folders = ("/usr/bin", *environ.get("PATH", os.defpath).split(os.pathsep))
    seen = set()
    for folder in folders:
        for name in names:
            path = f"{folder}/{name}"
            if folder and path not in seen and os.access(path, os.X_OK):
                seen.add(path)
                yield path


def examine(path: str) -> Python | None:
    """Return what an interpreter says about itself, or None when it does not run."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
        )
        major, minor = done.stdout.split()[:2]
        return Python(path, (int(major), int(minor)), done.returncode == 0)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def usable(environ: Mapping[str, str]) -> tuple[Python, ...]:
    """Return the interpreters that are new enough, up to and including the first that needs nothing more."""
    found = []
    for path in candidates(environ):
        python = examine(path)
        if python is None or python.version < OLDEST:
            continue
        found.append(python)
        if python.venv:
            break
    return tuple(found)


def choose(pythons: Sequence[Python], may_install: bool) -> Python | None:
    """Return the interpreter to use: the first complete one, or the distribution's if it may be completed."""
    for python in pythons:
        if python.venv or (python.distribution and may_install):
            return python
    return None
