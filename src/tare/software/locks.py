"""The lock files of a stack: what is wished (``.in``) and what exactly that became (``.lock``), as plain data.

``envs/<lock>.debs.lock`` has two header lines and one line a package::

    # suite bookworm
    # snapshot 20261129T005313Z
    hpcc 1.5.0-3 amd64 sha256:… 132424

The snapshot is the newest ``Date`` of the archive's Release files at the time of locking: every package existed
then, and it is the date (SOURCE_DATE_EPOCH) of everything built from the lock.
``envs/<lock>.lock.txt`` is pip's format with hashes, preceded by ``# python 3.11 manylinux_2_28_x86_64``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tare.software.errors import SoftwareError
from tare.software.files import sha256_of_files

SNAPSHOT_FORMAT = "%Y%m%dT%H%M%SZ"
_DEB = re.compile(r"(\S+) (\S+) (\S+) sha256:([0-9a-f]{64}) (\d+)")
_WHEEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)")
_PYTHON = re.compile(r"# python (\d+\.\d+) (\S+)")


@dataclass(frozen=True)
class Deb:
    """One Debian package, exactly."""

    name: str
    version: str
    architecture: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """The name the archive gives the file; a colon (epoch) is written %3a as apt does."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"

    def line(self) -> str:
        """Return the package's line in a lock."""
        return f"{self.name} {self.version} {self.architecture} sha256:{self.sha256} {self.size}"


@dataclass(frozen=True)
class DebLock:
    """A whole ``.debs.lock``."""

    suite: str
    snapshot: str
    debs: tuple[Deb, ...]

    @property
    def epoch(self) -> int:
        """Seconds since 1970 of the snapshot."""
        moment = datetime.strptime(self.snapshot, SNAPSHOT_FORMAT).replace(tzinfo=UTC)
        return int(moment.timestamp())

    def text(self) -> str:
        """Return the lock as the text of its file, packages sorted by name."""
        lines = [deb.line() for deb in sorted(self.debs, key=lambda deb: deb.name)]
        return "\n".join([f"# suite {self.suite}", f"# snapshot {self.snapshot}", *lines]) + "\n"


@dataclass(frozen=True)
class Requirement:
    """One wheel: name and version as in the lock, and the hashes of the files it may be."""

    name: str
    version: str
    sha256: tuple[str, ...]

    def lines(self) -> str:
        """Return the requirement as pip wants it."""
        hashes = "".join(f" \\\n    --hash=sha256:{value}" for value in self.sha256)
        return f"{self.name}=={self.version}{hashes}\n"


@dataclass(frozen=True)
class WheelLock:
    """A whole ``.lock.txt``. A stack without wheels has no requirements."""

    python: str
    platform: str
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True)
class DebWish:
    """A whole ``.debs.in``."""

    suite: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class StackLock:
    """The files of one lock in ``envs/``."""

    folder: Path
    name: str

    @property
    def wheels_path(self) -> Path:
        """``envs/<name>.lock.txt``."""
        return self.folder / f"{self.name}.lock.txt"

    @property
    def debs_path(self) -> Path:
        """``envs/<name>.debs.lock``."""
        return self.folder / f"{self.name}.debs.lock"

    def wheels(self) -> WheelLock:
        """Return the locked wheels."""
        return parse_wheel_lock(_read(self.wheels_path), str(self.wheels_path))

    def debs(self) -> DebLock:
        """Return the locked Debian packages."""
        return parse_deb_lock(_read(self.debs_path), str(self.debs_path))

    def wish(self) -> DebWish:
        """Return the wished Debian packages (``envs/<name>.debs.in``)."""
        path = self.folder / f"{self.name}.debs.in"
        return parse_deb_wish(_read(path), str(path))

    def sha256(self) -> str:
        """Return the hash over both locks: what a run records as ``lock_sha256``."""
        for path in (self.wheels_path, self.debs_path):
            _read(path)
        return sha256_of_files([self.wheels_path, self.debs_path])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SoftwareError(
            f"{path}: {error.strerror}; every lock has a .lock.txt and a .debs.lock in envs/, "
            "made from the .in files by `make relock`"
        ) from None


def parse_deb_lock(text: str, where: str) -> DebLock:
    """Return the lock in ``text``; raises ``SoftwareError`` naming ``where`` and the line."""
    headers: dict[str, str] = {}
    debs: list[Deb] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            key, _, value = line[1:].strip().partition(" ")
            headers[key] = value
        elif match := _DEB.fullmatch(line):
            debs.append(Deb(match[1], match[2], match[3], match[4], int(match[5])))
        elif line.strip():
            raise SoftwareError(
                f"{where}, line {number}: {line!r} is not “name version architecture sha256:<hex> size”; "
                "a lock is not edited by hand: `make relock`"
            )
    if not {"suite", "snapshot"} <= headers.keys() or not re.fullmatch(r"\d{8}T\d{6}Z", headers["snapshot"]):
        raise SoftwareError(
            f"{where}: needs the header lines “# suite …” and “# snapshot YYYYmmddTHHMMSSZ”; `make relock`"
        )
    return DebLock(headers["suite"], headers["snapshot"], tuple(debs))


def parse_wheel_lock(text: str, where: str) -> WheelLock:
    """Return the lock in ``text``; raises ``SoftwareError`` for a wheel without version or hash."""
    header = _PYTHON.match(text)
    if not header:
        raise SoftwareError(f"{where}: the first line must be “# python <minor> <platform>”; `make relock`")
    body = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    requirements = []
    for line in filter(str.strip, body.splitlines()):
        match = _WHEEL.match(line.strip())
        hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
        if not match or not hashes:
            raise SoftwareError(
                f"{where}: {line.strip()[:80]!r} is not “name==version --hash=sha256:…”; `make relock`"
            )
        requirements.append(Requirement(match[1], match[2], hashes))
    return WheelLock(header[1], header[2], tuple(requirements))


def parse_deb_wish(text: str, where: str) -> DebWish:
    """Return the wish in ``text``: a line ``suite: <name>``, then one package a line, comments after #."""
    suite = None
    names = []
    for line in text.splitlines():
        entry = line.partition("#")[0].strip()
        if entry.startswith("suite:"):
            suite = entry.removeprefix("suite:").strip()
        elif entry:
            names.append(entry)
    bad = [name for name in names if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name)]
    if not suite or bad:
        fault = (
            f"{bad[0]!r} is not the name of a Debian package"
            if bad
            else "the line “suite: <name>” is missing"
        )
        raise SoftwareError(f"{where}: {fault}; write “suite: bookworm”, then one package name a line")
    return DebWish(suite, tuple(names))
