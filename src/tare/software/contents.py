"""What an archive holds, read without extracting it: installed packages, and the hashes of what can be mapped."""

from __future__ import annotations

import posixpath
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tare.paths import archive_path, libraries_path
from tare.software.errors import SoftwareError
from tare.software.files import sha256_stream, write_json
from tare.software.locks import DebLock, WheelLock

_PROGRAM = re.compile(
    r"usr/(local/)?bin/(python[0-9.]*|hpcc|mpirun(\.openmpi)?|orterun|mpiexec(\.openmpi)?|caffe"
    r"|ioping|fio|iperf3)"
)
_DIST_INFO = re.compile(r"-packages/([^/]+)-([^/-]+)\.dist-info/METADATA$")


def canonical(name: str) -> str:
    """Return the normalised name of a Python distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def check_contents(archive: Path, debs: DebLock, wheels: WheelLock) -> None:
    """Raise ``SoftwareError`` unless the archive has every locked package installed at exactly its version."""
    installed, distributions = _installed(archive)
    wrong = [
        f"{deb.name}: locked {deb.version}, in the image {installed.get(deb.name, 'absent')}"
        for deb in debs.debs
        if installed.get(deb.name) != deb.version
    ]
    for wheel in wheels.requirements:
        found = distributions.get(canonical(wheel.name), "absent")
        if found != wheel.version:
            wrong.append(f"{wheel.name}: locked {wheel.version}, in the image {found}")
    if wrong:
        raise SoftwareError(
            f"the image does not hold what is locked ({'; '.join(wrong[:5])}); "
            "the Dockerfile has to install everything in /tmp/tare/debs and /tmp/tare/wheels"
        )


def _installed(archive: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return (Debian package → version, Python distribution → version) of an archive."""
    debs: dict[str, str] = {}
    distributions: dict[str, str] = {}
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            if member.name == "var/lib/dpkg/status" and (file := tar.extractfile(member)):
                debs = installed_debs(file.read().decode("utf-8", "replace"))
            elif match := _DIST_INFO.search(member.name):
                distributions[canonical(match[1])] = match[2]
    return debs, distributions


def installed_debs(status: str) -> dict[str, str]:
    """Return name → version of the packages that a dpkg status file says are completely installed."""
    found = {}
    for stanza in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", stanza, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            found[fields["Package"]] = fields["Version"]
    return found


def write_libraries(digest: str) -> Path:
    """Write the manifest of an archive (absolute path in the image → hex SHA-256); return its path.

    Listed are regular files with ``.so`` in their name, the interpreters and the benchmark programs, and every
    symbolic link that leads to one of them.
    """
    target = libraries_path(digest)
    if target.exists():
        return target
    hashes: dict[str, str] = {}
    links: dict[str, str] = {}
    with tarfile.open(archive_path(digest), "r:") as tar:
        for member in tar:
            if member.issym():
                links[member.name] = member.linkname
            elif member.islnk() and member.linkname in hashes:
                hashes[member.name] = hashes[member.linkname]
            elif member.isreg() and _is_listed(member.name) and (file := tar.extractfile(member)):
                hashes[member.name] = sha256_stream(file)  # type: ignore[arg-type]
    for name in links:
        real = resolve(name, links)
        if real in hashes:
            hashes[name] = hashes[real]
    write_json(target, {f"/{name}": hashes[name] for name in sorted(hashes)})
    return target


def _is_listed(name: str) -> bool:
    return ".so" in posixpath.basename(name) or _PROGRAM.fullmatch(name) is not None


def resolve(name: str, links: Mapping[str, str], depth: int = 40) -> str | None:
    """Return where a path leads when every symbolic link is followed, also in its folders; None for a loop."""
    done: list[str] = []
    left = [part for part in name.split("/") if part]
    while left:
        part = left.pop(0)
        if part in (".", ".."):
            done = done[:-1] if part == ".." else done
            continue
        target = links.get("/".join([*done, part]))
        if target is None:
            done.append(part)
            continue
        depth -= 1
        if depth < 0:
            return None
        done = [] if target.startswith("/") else done
        left = [p for p in target.split("/") if p] + left
    return "/".join(done)
