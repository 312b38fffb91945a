"""A root filesystem as one canonical archive: equal content gives equal bytes, whoever built it, where and when.

Names are sorted, times clamped to the lock's date, owners numeric, hard links point at the first of their names;
what a build leaves behind or the engine puts in (logs, caches, host names, sources, build folders) is left out.
The SHA-256 of the archive is the *content digest* of an image; it is computed from the archive, never from an
extracted tree.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from tare.paths import archive_path
from tare.software.errors import SoftwareError
from tare.software.files import scratch

#: folders that exist in every image, empty: name → mode
EMPTY = {
    "data": 0o755,
    "dev": 0o755,
    "proc": 0o755,
    "run": 0o755,
    "sys": 0o755,
    "tare": 0o755,
    "tmp": 0o1777,
    "var/tmp": 0o1777,
}
#: the one name every image knows, as the engine's own file says; nothing else is looked up in a run
HOSTS = ("etc/hosts", b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
_LEFT_OUT = re.compile(
    r"""\.dockerenv
    | etc/(?:hostname|hosts|resolv\.conf|mtab|machine-id|\.pwd\.lock)
    | etc/(?:passwd|group|shadow|gshadow|subuid|subgid)-       # copies of the file before the last change
    | etc/apt/sources\.list | etc/apt/sources\.list\.d/.+      # name the repository of the bootstrap
    | etc/apt/apt\.conf\.d/99mmdebstrap | etc/dpkg/dpkg\.cfg\.d/99mmdebstrap
    | var/lib/dbus/machine-id
    | var/lib/apt/(?:lists|periodic|mirrors)/.+ | var/lib/apt/extended_states
    | var/lib/dpkg/(?:lock|lock-frontend|triggers/Lock|[a-z-]+-old) | var/lib/dpkg/updates/.+
    | var/cache/(?:apt|ldconfig|debconf|man|fontconfig)/.+
    | var/log/.+ | var/backups/.+
    | root/\..+                                                # histories and caches of the build
    """,
    re.VERBOSE,
)


class _Hashing:
    """As much of a file as tarfile needs for writing; it hashes what passes through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()


def is_left_out(name: str) -> bool:
    """Return whether a path (without a leading slash) is no part of an image's content."""
    inside = any(name.startswith(f"{folder}/") for folder in EMPTY)
    return inside or name in EMPTY or _LEFT_OUT.fullmatch(name) is not None


def normalise(source: Path, target: Path, epoch: int) -> str:
    """Write the canonical form of the tar ``source`` to ``target``; return the hex SHA-256 of what was written.

    ``epoch``: seconds since 1970; later times are set to it. Raises ``SoftwareError`` for content that has no
    canonical form (device files outside /dev).
    """
    with tarfile.open(source, "r:") as tar, target.open("wb", buffering=1 << 20) as file:
        members = {name: member for member in tar if (name := member.name.strip("/").removeprefix("./"))}
        hashing = _Hashing(file)
        with tarfile.open(
            fileobj=cast("IO[bytes]", hashing), mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8"
        ) as out:
            for entry, origin in _entries(members, epoch):
                data = tar.extractfile(origin) if origin is not None else None
                out.addfile(entry, io.BytesIO(HOSTS[1]) if entry.name == HOSTS[0] else data)
        return hashing.digest.hexdigest()


def _entries(
    members: dict[str, tarfile.TarInfo], epoch: int
) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarInfo | None]]:
    """Yield (entry to write, member its data comes from) in canonical order."""
    first_names: dict[str, str] = {}  # what a hard link points at → the first name kept of that file
    kept = {name for name in members if name != "." and not is_left_out(name)}
    for name in sorted(kept | EMPTY.keys() | {HOSTS[0]}):
        if name in EMPTY:
            yield _fixed(name, tarfile.DIRTYPE, EMPTY[name], 0, epoch), None
            continue
        if name == HOSTS[0]:
            yield _fixed(name, tarfile.REGTYPE, 0o644, len(HOSTS[1]), epoch), None
            continue
        member = members[name]
        origin = _origin(name, members)
        entry = _entry(name, member, epoch)
        if member.islnk() or member.isreg():
            first = first_names.setdefault(origin, name)
            same = first != name
            entry.type = tarfile.LNKTYPE if same else tarfile.REGTYPE
            entry.linkname = first if same else ""
            entry.size = 0 if same else members[origin].size
            yield entry, None if same else members[origin]
        else:
            yield entry, None


def _origin(name: str, members: dict[str, tarfile.TarInfo]) -> str:
    """Return the name of the member that holds the data of ``name``: itself unless it is a hard link."""
    seen = set()
    while members[name].islnk() and name not in seen:
        seen.add(name)
        name = members[name].linkname.strip("/").removeprefix("./")
    return name


def _entry(name: str, member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    if member.ischr() or member.isblk():
        raise SoftwareError(
            f"/{name} is a device file; an image may hold none outside /dev: remove it in the Dockerfile"
        )
    entry = tarfile.TarInfo(name)
    entry.type = member.type
    entry.mode = member.mode & 0o7777
    entry.uid, entry.gid = member.uid, member.gid
    entry.mtime = min(int(member.mtime), epoch)
    entry.linkname = member.linkname if member.issym() else ""
    attributes = {k: v for k, v in member.pax_headers.items() if k == "SCHILY.xattr.security.capability"}
    entry.pax_headers = attributes
    return entry


def _fixed(name: str, kind: bytes, mode: int, size: int, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.mtime = kind, mode, size, epoch
    return entry


def normalise_into_cache(source: Path, epoch: int) -> tuple[str, int]:
    """Put the canonical form of ``source`` into the cache; return (content digest ``sha256:…``, size in bytes)."""
    with scratch("normalise") as folder:
        draft = folder / "rootfs.tar"
        digest = f"sha256:{normalise(source, draft, epoch)}"
        final = archive_path(digest)
        final.parent.mkdir(parents=True, exist_ok=True)
        size = draft.stat().st_size
        draft.replace(final)
    return digest, size
