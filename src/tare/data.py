"""Data sets in their original formats: verified and copied from a user's folder, or generated.

The copy is always the pipeline user's own file: only to a file's owner does mincore(2) tell the truth about what
is in the page cache. ``dataset.json`` beside the files says what they are; a folder that cannot be used gives
one with status ``failed`` and the reason, so that the rest of a study goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tare.data_generator import GENERATOR, contents
from tare.worker.mounts import Mount, mount_of, read_mounts
from tare.workloads.formats import FORMATS, DatasetFormat, RecordFile

FILES = "files"  # folder of the data files, beside dataset.json
CHUNK = 1 << 20
#: bytes that must stay free on the disk beside the data set itself
RESERVE = 256 << 20


class DataError(ValueError):
    """Data that cannot be used; the message names the file, what is expected and the fix."""


def prepare(
    name: str, target: Path, folder: Path | None, form: DatasetFormat | None = None
) -> dict[str, Any]:
    """Make data set ``name`` in ``target`` and return what was written to ``target/dataset.json``.

    ``folder`` is the user's folder with the original files, or None for the generated set. Raises nothing for
    data that cannot be used or a full disk: the status is then ``failed``, with one reason, and no file is left.
    """
    form = form or FORMATS[name]
    facts: dict[str, Any] = {
        "dataset": name,
        "status": "ok",
        "reasons": [],
        "source": "generated" if folder is None else "folder",
        "generator": GENERATOR if folder is None else None,
        "samples": form.samples,
        "files": [],
        "sha256": None,
    }
    files = target / FILES
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True)
    try:
        check_space(target, sum(file.bytes for file in form.files))
        if folder is not None:
            verify(folder, form)
        facts["files"] = _write_files(files, folder, form)
        facts["sha256"] = combined_sha256(facts["files"])
    except (DataError, OSError) as error:
        for path in files.iterdir():
            path.unlink()
        facts.update(status="failed", reasons=[str(error)], files=[])
    _write_json(target / "dataset.json", facts)
    return facts


def verify(folder: Path, form: DatasetFormat) -> None:
    """Raise ``DataError`` unless ``folder`` holds the files of ``form``: sizes, magic numbers, labels in range."""
    for file in form.files:
        path = folder / file.name
        if not path.is_file():
            packed = f"; {path}.gz is there: unpack it" if path.with_name(file.name + ".gz").exists() else ""
            raise DataError(f"{path}: not found; the folder must hold {_names(form)}{packed}")
        try:
            _verify_file(path, file, form)
        except PermissionError:
            raise DataError(f"{path}: may not be read; make it readable for this user") from None


def _verify_file(path: Path, file: RecordFile, form: DatasetFormat) -> None:
    fix = f"use the original, unpacked file of {form.name}"
    size = path.stat().st_size
    with path.open("rb") as stream:
        header = stream.read(len(file.header))
        if header != file.header[: len(header)] or len(header) < len(file.header):
            raise DataError(f"{path}: starts with bytes {header.hex()}, expected {file.header.hex()}; {fix}")
        if size != file.bytes:
            raise DataError(f"{path}: {size} bytes, expected {file.bytes} ({file.records} records); {fix}")
        if file.record_bytes == form.image_bytes:  # images alone, no labels
            return
        first = 0
        while chunk := stream.read(file.record_bytes * 10_000):
            labels = chunk[:: file.record_bytes]
            if max(labels) >= form.classes:
                wrong = next(i for i, label in enumerate(labels) if label >= form.classes)
                raise DataError(
                    f"{path}: record {first + wrong} has label {labels[wrong]}, allowed: 0 … {form.classes - 1}; {fix}"
                )
            first += len(labels)


def _names(form: DatasetFormat) -> str:
    return ", ".join(file.name for file in form.files)


def _write_files(files: Path, folder: Path | None, form: DatasetFormat) -> list[dict[str, Any]]:
    entries = []
    streams = (
        contents(form) if folder is None else ((file, _chunks(folder / file.name)) for file in form.files)
    )
    for file, chunks in streams:
        path = files / file.name
        sha256 = _write_whole(path, chunks)
        if path.stat().st_size != file.bytes:
            raise DataError(f"{path}: {path.stat().st_size} bytes written, expected {file.bytes}; try again")
        if not not_sparse(path):
            raise DataError(
                f"{path}: the file system keeps it sparse or compressed; use another for results/"
            )
        entries.append({"path": f"{FILES}/{file.name}", "bytes": file.bytes, "sha256": sha256})
    return entries


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _write_whole(path: Path, chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as stream:
        for chunk in chunks:
            stream.write(chunk)
            digest.update(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    return digest.hexdigest()


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    _write_whole(path, iter([text.encode()]))


def combined_sha256(files: list[dict[str, Any]]) -> str:
    """Return one hash over all files: of the lines that sha256sum would print for them, in their order."""
    lines = "".join(f"{file['sha256']}  {file['path']}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def check_space(target: Path, needed: int) -> None:
    """Raise ``DataError`` unless the disk of ``target`` has ``needed`` bytes and a reserve free."""
    free = shutil.disk_usage(target).free
    if free < needed + RESERVE:
        raise DataError(
            f"{target}: {free} bytes free, the data set needs {needed} and {RESERVE} must stay free; free some space"
        )


def not_sparse(path: Path) -> bool:
    """Return whether the file has blocks for all its bytes: a hole would be read at the speed of memory.

    A file system that compresses gives False as well; it would read less than it delivers.
    """
    status = path.stat()
    return status.st_blocks * 512 >= status.st_size


def file_system(path: Path) -> Mount | None:
    """Return the mount that ``path`` lies on (its ``type`` is e.g. ext4, overlay, tmpfs), or None if unknown."""
    return mount_of(str(path.resolve()), read_mounts())
