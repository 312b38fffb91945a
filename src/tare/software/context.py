"""The build context of a recipe as a tar stream: its files, the locked debs and wheels, all with the lock's date."""

from __future__ import annotations

import contextlib
import os
import tarfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from tare.software import wheels
from tare.software.debs import lay_out
from tare.software.files import scratch
from tare.software.locks import Deb, StackLock
from tare.software.recipe import recipe_files


@contextlib.contextmanager
def build_context(
    recipe: Path, debs: Sequence[Deb], lock: StackLock | None, epoch: int
) -> Iterator[IO[bytes]]:
    """Yield the context as an open stream: the recipe's files, ``debs/*.deb`` and ``wheels/`` (a wheelhouse).

    Both folders exist even when empty, so that a Dockerfile can always copy them.
    """
    with scratch("context") as folder:
        lay_out(debs, folder / "debs")
        (folder / "wheels").mkdir()
        if lock is not None:
            wheels.lay_out(lock, folder / "wheels")
        entries = [(path.relative_to(recipe).as_posix(), path) for path in recipe_files(recipe)]
        for name in ("debs", "wheels"):
            entries += [(name, folder / name)]
            entries += [(f"{name}/{path.name}", path) for path in sorted((folder / name).iterdir())]
        reading, writing = os.pipe()
        writer = threading.Thread(target=_write, args=(entries, writing, epoch), daemon=True)
        writer.start()
        with os.fdopen(reading, "rb") as stream:
            yield stream
        writer.join()


def _write(entries: Sequence[tuple[str, Path]], descriptor: int, epoch: int) -> None:
    """Write the tar into the pipe; a reader that went away is the reader's affair."""
    with (
        contextlib.suppress(BrokenPipeError),
        os.fdopen(descriptor, "wb") as pipe,
        tarfile.open(fileobj=pipe, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, path in entries:
            _add(tar, name, path, epoch)


def _add(tar: tarfile.TarFile, name: str, path: Path, epoch: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.mtime = epoch
    if path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
        return
    entry.size = path.stat().st_size
    entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
    with path.open("rb") as file:
        tar.addfile(entry, file)
