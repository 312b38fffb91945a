"""Files by content: hashes, atomic writes, links. Everything here works for an ordinary user."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tare.paths import cache_dir
from tare.software.safe_delete import remove_tree

CHUNK = 1 << 20


def sha256_stream(stream: BinaryIO) -> str:
    """Return the hex SHA-256 of what is left in ``stream``."""
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a file."""
    with path.open("rb") as file:
        return sha256_stream(file)


def sha256_of_files(paths: list[Path]) -> str:
    """Return one hex SHA-256 over names and contents of ``paths``, in their order."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{sha256_file(path)}\n".encode())
    return digest.hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` whole or not at all, with the permissions the umask asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write ``value`` as JSON, keys in their own (stable) order, so that equal results give equal files."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def place(source: Path, target: Path) -> None:
    """Make ``target`` the same file as ``source``: a hard link, or a copy across file systems."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """Yield an empty folder in the cache (same file system as the results of the work); removed at the end."""
    parent = cache_dir() / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=parent))
    try:
        yield folder
    finally:
        remove_tree(folder)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock (a file) that ends with this process, so that two workflows do not make one thing at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
