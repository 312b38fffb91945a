"""Locked wheels as files: downloaded by pip with hashes required, kept by hash, laid out as a wheelhouse."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tare.paths import cache_dir
from tare.software.errors import SoftwareError
from tare.software.files import place, scratch, sha256_file, write_text
from tare.software.locks import Requirement, StackLock, WheelLock

#: what the lock is called inside a wheelhouse
REQUIREMENTS = "requirements.txt"


def cached(requirement: Requirement) -> Path | None:
    """Return the cached wheel of a requirement, its content checked; a damaged file is removed."""
    for sha256 in requirement.sha256:
        for path in (cache_dir() / "wheels" / sha256).glob("*.whl"):
            if sha256_file(path) == sha256:
                return path
            path.unlink()
    return None


def fetch_wheels(lock: StackLock) -> list[Path]:
    """Return the files of all locked wheels, downloading what the cache lacks.

    First where pip's own configuration points; what is not there is looked for once more with the extra options
    of ``envs/<lock>.in`` (a project's public wheel index). Raises ``SoftwareError`` with both remedies.
    """
    wheels = lock.wheels()
    missing = [r for r in wheels.requirements if cached(r) is None]
    if missing and (fault := _download(missing, wheels, [])):
        missing = [r for r in wheels.requirements if cached(r) is None]
        options = index_options(lock.folder / f"{lock.name}.in")
        again = _download(missing, wheels, options) if options else ""
        if again or not options:
            raise SoftwareError(_not_found(lock, fault, again, options))
    found = [(r, cached(r)) for r in wheels.requirements]
    lost = [f"{r.name}=={r.version}" for r, path in found if path is None]
    if lost:
        raise SoftwareError(f"pip downloaded other files than locked for {', '.join(lost)}; `make relock`")
    return [path for _, path in found if path is not None]


def _not_found(lock: StackLock, fault: str, again: str, options: Sequence[str]) -> str:
    tried = f", nor with {' '.join(options)} ({again})" if options else ""
    return (
        f"wheels of envs/{lock.name}.lock.txt are not where pip's configuration points ({fault}){tried}; "
        "either point pip at an index or folder that has them (pip config set global.find-links <folder>), "
        f"or name a public index with --extra-index-url in envs/{lock.name}.in and `make relock`"
    )


def index_options(wish: Path) -> list[str]:
    """Return the index options (``--extra-index-url URL``, ``--find-links …``) that stand in a ``.in`` file."""
    lines = wish.read_text(encoding="utf-8").splitlines() if wish.exists() else []
    return [
        word
        for line in lines
        if line.startswith("--")
        for word in re.split(r"[ =]", line.strip(), maxsplit=1)
    ]


def _download(requirements: Sequence[Requirement], lock: WheelLock, options: Sequence[str]) -> str:
    """Download into the cache; return "" or why not (pip's last error lines)."""
    with scratch("wheels") as folder:
        wanted = folder / REQUIREMENTS
        write_text(wanted, "".join(requirement.lines() for requirement in requirements))
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--only-binary=:all:", "--dest", str(folder / "new"), *target_options(lock), *options]
        done = subprocess.run([*command, "-r", str(wanted)], capture_output=True, text=True, check=False)
        for path in sorted((folder / "new").glob("*.whl")):
            home = cache_dir() / "wheels" / sha256_file(path)
            home.mkdir(parents=True, exist_ok=True)
            path.replace(home / path.name)
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return " ".join(errors[-2:] or done.stderr.splitlines()[-2:])


def target_options(lock: WheelLock) -> list[str]:
    """Return pip's options for the interpreter and platform of the lock, whatever runs pip.

    A manylinux_2_N machine takes every older tag as well (PEP 600).
    """
    digits = lock.python.replace(".", "")
    options = ["--python-version", lock.python, "--implementation", "cp"]
    options += [part for abi in (f"cp{digits}", "abi3", "none") for part in ("--abi", abi)]
    match = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", lock.platform)
    if not match:
        return [*options, "--platform", lock.platform]
    newest, machine = int(match[1]), match[2]
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)]
    tags += [f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    return options + [part for tag in tags for part in ("--platform", tag)]


def lay_out(lock: StackLock, folder: Path) -> None:
    """Make ``folder`` a wheelhouse: the cached wheels and ``requirements.txt``, the lock with its hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    requirements = lock.wheels().requirements
    for requirement in requirements:
        path = cached(requirement)
        if path is None:
            raise SoftwareError(
                f"{requirement.name}=={requirement.version} is not in the cache; run fetch_wheels again"
            )
        place(path, folder / path.name)
    write_text(folder / REQUIREMENTS, "".join(requirement.lines() for requirement in requirements))
