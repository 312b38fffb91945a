"""Locked Debian packages as files: fetched once, kept by hash, laid out as a repository for the bootstrap."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tare.config import Base
from tare.paths import cache_dir
from tare.software.apt import PrivateApt, snapshot_sources, sources_for
from tare.software.errors import SoftwareError
from tare.software.files import place, scratch, sha256_file
from tare.software.locks import Deb, DebLock


def cached(deb: Deb) -> Path:
    """Return where the cache keeps a package: its hash is its name."""
    return cache_dir() / "debs" / f"{deb.sha256}.deb"


def is_cached(deb: Deb) -> bool:
    """Return whether the cache holds the package with the right content; a damaged file is removed."""
    path = cached(deb)
    if not path.exists():
        return False
    if path.stat().st_size == deb.size and sha256_file(path) == deb.sha256:
        return True
    path.unlink()
    return False


def fetch_debs(lock: DebLock, base: Base) -> list[Path]:
    """Return the files of all locked packages, downloading what the cache lacks.

    Raises ``SoftwareError`` naming package and version when the mirror (and the snapshot, if configured) lacks one.
    """
    missing = [deb for deb in lock.debs if not is_cached(deb)]
    words = ""
    if missing:
        missing, words = _fetch_from(missing, sources_for(lock.suite, base.mirror))
    if missing and base.snapshot:
        missing, more = _fetch_from(missing, snapshot_sources(lock.suite, base.snapshot, lock.snapshot))
        words = f"{words} {more}".strip()
    if missing:
        raise SoftwareError(_gone(missing, base, words))
    return [cached(deb) for deb in lock.debs]


def _gone(missing: Sequence[Deb], base: Base, words: str) -> str:
    names = ", ".join(f"{deb.name} {deb.version}" for deb in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    where = (
        "neither the Debian mirror nor the snapshot archive has"
        if base.snapshot
        else "the Debian mirror does not have"
    )
    snapshot = (
        "" if base.snapshot else "set software.base.snapshot to the URL of a Debian snapshot archive, or "
    )
    said = f" (apt: {words})" if words else ""
    return f"{where} the locked {names}{more}{said}; {snapshot}lock what it has now: `make relock`"


def _fetch_from(debs: Sequence[Deb], sources: Sequence[str]) -> tuple[list[Deb], str]:
    """Download into the cache what ``sources`` have; return what they lack, and what apt complained about."""
    with scratch("apt") as folder:
        apt = PrivateApt(folder, sources)
        words = apt.update(strict=False)
        known = apt.records([(deb.name, deb.version) for deb in debs])
        offered = [d for d in debs if known.get((d.name, d.version), {}).get("SHA256") == d.sha256]
        target = folder / "debs"
        target.mkdir()
        apt.download(offered, target)
        _keep(offered, target)
    return [deb for deb in debs if deb not in offered], words


def _keep(debs: Sequence[Deb], folder: Path) -> None:
    """Move the downloaded packages into the cache, each only with the locked content."""
    (cache_dir() / "debs").mkdir(parents=True, exist_ok=True)
    for deb in debs:
        path = folder / deb.file_name
        found = sha256_file(path) if path.exists() else "nothing"
        if found != deb.sha256:
            raise SoftwareError(
                f"{deb.file_name}: downloaded {found}, locked sha256 {deb.sha256}; "
                "the mirror is damaged or altered: try another one (software.base.mirror)"
            )
        path.replace(cached(deb))


def lay_out(debs: Sequence[Deb], folder: Path) -> None:
    """Put the cached packages into ``folder`` under their archive names."""
    folder.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        place(cached(deb), folder / deb.file_name)


def make_repository(debs: Sequence[Deb], folder: Path) -> None:
    """Make ``folder`` a flat repository of exactly ``debs``, readable by everyone: their files and a Packages index."""
    lay_out(debs, folder)
    stanzas = []
    for deb in sorted(debs, key=lambda deb: deb.name):
        path = folder / deb.file_name
        path.chmod(0o644)
        command = ["dpkg-deb", "--field", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        stanzas.append(f"{done.stdout}Filename: ./{deb.file_name}\nSize: {deb.size}\nSHA256: {deb.sha256}\n")
    index = folder / "Packages"
    index.write_text("\n".join(stanzas), encoding="utf-8")
    index.chmod(0o644)
