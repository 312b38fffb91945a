"""The C compiler of the native programs: the locked wheel ``ziglang``, unpacked in the cache.

It brings compiler, linker and musl libc, so that one wheel makes the same static programs on every machine.
"""

from __future__ import annotations

import platform
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.paths import cache_dir
from tare.software.errors import Skipped, SoftwareError
from tare.software.files import exclusive, scratch
from tare.software.locks import StackLock
from tare.software.safe_delete import remove_tree
from tare.software.wheels import fetch_wheels

WHEEL = "ziglang"
#: lines of a compiler's complaint that are kept
LINES = 12


@dataclass(frozen=True)
class Compiler:
    """An unpacked compiler; ``sha256`` of its wheel, ``cache`` for what it makes of its own sources (libc)."""

    program: Path
    version: str
    sha256: str
    cache: Path

    def run(self, arguments: Sequence[str], folder: Path) -> None:
        """Run ``zig <arguments>`` in ``folder``, its environment built from nothing.

        Raises ``SoftwareError`` with the compiler's message.
        """
        done = subprocess.run(
            [str(self.program), *arguments],
            cwd=folder,
            env=environment(folder, self.cache),
            umask=0o022,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()[:LINES]
            words = "\n".join(lines) or f"exit status {done.returncode}, no message"
            raise SoftwareError(f"zig {' '.join(arguments[:1])} failed:\n{words}")


def environment(folder: Path, cache: Path) -> dict[str, str]:
    """Return all variables that the compiler gets; what it writes lies below ``folder`` and ``cache``."""
    return {
        "LC_ALL": "C",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "ZIG_LOCAL_CACHE_DIR": str(folder / ".zig-cache"),
        "ZIG_GLOBAL_CACHE_DIR": str(cache),
        "SOURCE_DATE_EPOCH": "0",
    }


def ensure_compiler(lock: StackLock) -> Compiler:
    """Return the compiler of a lock (``envs/native.lock.txt``), fetched and unpacked where the cache lacks it.

    Raises ``Skipped`` on a machine that the locked wheel is not made for.
    """
    requirements = lock.wheels().requirements
    found = [r for r in requirements if r.name == WHEEL]
    if len(found) != 1:
        raise SoftwareError(
            f"{lock.wheels_path}: must hold {WHEEL}; put it into envs/native.in, `make relock`"
        )
    wheel = fetch_wheels(lock)[requirements.index(found[0])]
    if not wheel.stem.endswith(f"_{platform.machine()}"):
        raise Skipped(
            f"the locked compiler {wheel.name} does not run on a machine of type {platform.machine()}"
        )
    sha256 = wheel.parent.name
    folder = cache_dir() / "zig" / sha256[:32]
    with exclusive(folder.with_name(f"{folder.name}.lock")):
        if not (folder / WHEEL / "zig").exists():
            _unpack(wheel, folder)
    return Compiler(folder / WHEEL / "zig", found[0].version, sha256, folder.with_name(f"{folder.name}.libc"))


def _unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel; the folder appears whole or not at all."""
    remove_tree(folder)
    with scratch("zig") as work:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work / "wheel")
        (work / "wheel" / WHEEL / "zig").chmod(0o755)
        (work / "wheel").rename(folder)
