"""The sha256 of the libraries a run had loaded: from the image's manifest, or of the host's files, kept in a cache.

Hashing a framework takes seconds, a run should not: a file's sum is kept by its path, device, inode, size and
time of change.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from tare.paths import cache_dir, libraries_path

CACHE_NAME = "library-sha256.json"


def is_code(path: str) -> bool:
    """Return whether a mapped file is a shared object or a program, not data, a locale or a cache."""
    name = path.rpartition("/")[2]
    return ".so" in name or path.rpartition("/")[0].endswith(("/bin", "/sbin"))


def image_hashes(digest: str, paths: Iterable[str]) -> dict[str, str | None]:
    """Return path in the image → sha256, None for a file that the image's manifest does not list."""
    manifest = _manifest(libraries_path(digest))
    return {path: manifest.get(path) for path in sorted(paths)}


@lru_cache(maxsize=8)
def _manifest(path: Path) -> Mapping[str, str]:
    with suppress(OSError, ValueError):
        parsed = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(parsed, dict):
            return parsed
    return {}


def host_hashes(paths: Iterable[str], cache: Path | None = None) -> dict[str, str | None]:
    """Return path → sha256 of this machine's files, None for one that cannot be read."""
    cache = cache or cache_dir() / CACHE_NAME
    known = _load(cache)
    sums: dict[str, str | None] = {}
    fresh: dict[str, str] = {}
    for path in sorted(paths):
        try:
            key = _key(path)
            found = known.get(key)
            if found is None:
                found = fresh[key] = _sha256(path)
        except OSError:
            found = None
        sums[path] = found
    if fresh:
        _store(cache, {**_load(cache), **fresh})
    return sums


def _key(path: str) -> str:
    facts = Path(path).stat()
    return "|".join(map(str, (path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)))


def _sha256(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(cache: Path) -> dict[str, str]:
    """Return the kept sums; a file that is absent or damaged is as good as an empty one."""
    with suppress(OSError, ValueError):
        parsed = json.loads(cache.read_text(encoding="utf-8"))
        if isinstance(parsed, dict):
            return parsed
    return {}


def _store(cache: Path, sums: Mapping[str, str]) -> None:
    """Write the sums whole or not at all; a cache that cannot be written only costs time."""
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=cache.parent, prefix=f".{cache.name}.")
        os.fchmod(handle, 0o644)  # mkstemp gave 0600, and a cache may be shared
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(sums, file, sort_keys=True)
        Path(draft).replace(cache)
