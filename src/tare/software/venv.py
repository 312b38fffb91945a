"""A stack's host form: the same wheels in a venv of the machine's own interpreter, or installed Debian packages."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.paths import cache_dir
from tare.software import wheels
from tare.software.contents import installed_debs
from tare.software.errors import Skipped, SoftwareError
from tare.software.files import exclusive, scratch, write_text
from tare.software.locks import StackLock
from tare.software.safe_delete import remove_tree

DPKG_STATUS = Path("/var/lib/dpkg/status")
#: the distribution's interpreters come before one on the PATH
FOLDERS = ("/usr/bin",)


@dataclass(frozen=True)
class HostForm:
    """The interpreter that runs the worker on the host, and the packages of the stack beside it."""

    python: str
    interpreter_version: str
    packages: dict[str, str]


def ensure_host_form(lock: StackLock, status: Path = DPKG_STATUS) -> HostForm:
    """Return the host form of a lock, making its venv when the stack has wheels and the cache lacks it.

    Raises ``Skipped`` with the exact remedy when the interpreter or a Debian package is absent on this machine.
    """
    wanted = lock.wheels()
    packages = host_debs(lock.wish().names, status)
    interpreter, version = find_interpreter(wanted.python, _folders())
    if not wanted.requirements:
        return HostForm(interpreter, version, packages)
    wheels.fetch_wheels(lock)
    packages |= {requirement.name: requirement.version for requirement in wanted.requirements}
    return HostForm(str(_ensure_venv(lock, interpreter, version)), version, packages)


def host_debs(names: Sequence[str], status: Path = DPKG_STATUS) -> dict[str, str]:
    """Return name → version of the wished packages as installed here; raises ``Skipped`` naming the absent ones."""
    installed = installed_debs(status.read_text("utf-8", "replace")) if status.exists() else {}
    absent = [name for name in names if name not in installed]
    if absent:
        raise Skipped(
            f"not installed on this machine: {', '.join(absent)}; install: apt-get install {' '.join(absent)}"
        )
    return {name: installed[name] for name in names}


def _folders() -> list[str]:
    return [*FOLDERS, *os.environ.get("PATH", os.defpath).split(os.pathsep)]


def find_interpreter(minor: str, folders: Sequence[str]) -> tuple[str, str]:
    """Return (path, full version) of the first interpreter of a minor version (``3.11``) in ``folders``.

    Interpreters inside a virtual environment are passed over. Raises ``Skipped`` with the remedy.
    """
    for folder in dict.fromkeys(folders):
        for name in (f"python{minor}", "python3"):
            path = Path(folder) / name
            if os.access(path, os.X_OK) and (version := _ask(path, minor)):
                return str(path), version
    raise Skipped(
        f"this machine has no Python {minor}, which the lock is made for; install: apt-get install python{minor}"
    )


def _ask(path: Path, minor: str) -> str | None:
    """Return an interpreter's full version, None unless it is of the minor version and no venv's."""
    code = "import sys, venv; print(sys.version.split()[0], sys.prefix == sys.base_prefix)"
    done = subprocess.run([str(path), "-I", "-c", code], capture_output=True, text=True, check=False)
    version, _, own = done.stdout.strip().partition(" ")
    return version if own == "True" and version.startswith(f"{minor}.") else None


def _ensure_venv(lock: StackLock, interpreter: str, version: str) -> Path:
    """Return the interpreter of the venv, made at its final place: its scripts know where they lie."""
    key = hashlib.sha256(f"{lock.sha256()}\0{interpreter}\0{version}".encode()).hexdigest()[:32]
    folder = cache_dir() / "venvs" / key
    complete = folder.with_name(f"{key}.complete")
    python = folder / "bin/python3"
    with exclusive(folder.with_name(f"{key}.lock")):
        if not (complete.exists() and os.access(python, os.X_OK)):
            complete.unlink(missing_ok=True)
            remove_tree(folder)
            try:
                _make_venv(lock, interpreter, folder)
            except BaseException:
                remove_tree(folder)
                raise
            write_text(complete, f"{lock.sha256()}\n")
    return python


def _make_venv(lock: StackLock, interpreter: str, folder: Path) -> None:
    with scratch("venv") as work:
        house = work / "wheels"
        wheels.lay_out(lock, house)
        pip = next(house.glob("pip-*.whl"), None)
        if pip is None:
            raise SoftwareError(
                f"envs/{lock.name}.in lacks pip, which installs the wheels; add it and `make relock`"
            )
        environment = {
            "PATH": os.defpath,
            "HOME": str(work),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        _run([interpreter, "-m", "venv", "--without-pip", str(folder)], environment)
        python = str(folder / "bin/python3")
        install = [
            python,
            "-m",
            "pip",
            "install",
            "--isolated",
            "--no-index",
            "--no-deps",
            "--require-hashes",
        ]
        install += [
            "--no-cache-dir",
            "--no-compile",
            "--find-links",
            str(house),
            "-r",
            str(house / wheels.REQUIREMENTS),
        ]
        _run(install, environment | {"PYTHONPATH": str(pip)})
        # Bytecode as in the image: never checked against its source. A file of other syntax fails, as it does there.
        compile_all = ["-m", "compileall", "-q", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
        _run([python, *compile_all, str(folder / "lib")], environment, check=False)


def _run(command: Sequence[str], environment: Mapping[str, str], check: bool = True) -> None:
    done = subprocess.run(
        command, env=dict(environment), umask=0o022, capture_output=True, text=True, check=False, cwd="/"
    )
    if check and done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise SoftwareError(f"{' '.join(command[:4])} failed:\n{last}")
