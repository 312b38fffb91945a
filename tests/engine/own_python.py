"""This machine's own Python as a stack, for engine tests: an image and a root filesystem made in seconds, no build."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tare.config import Disturbance
from tare.ground import BlockRequest
from tare.paths import archive_path, rootfs_dir
from tare.run import WORKFLOW_VARIABLE
from tare.runtimes import engine
from tare.software.contents import write_libraries
from tare.software.worker_wheel import build_worker

LEFT_OUT = (
    "test",
    "__pycache__",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "config-*",
    "dist-packages",
    "site-packages",
)


def copy_python(root: Path) -> None:
    """Copy the interpreter, its standard library and all libraries of both into ``root``, at their own places."""
    python = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, root / library.relative_to("/"), ignore=shutil.ignore_patterns(*LEFT_OUT))
    (root / python.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(python, root / python.relative_to("/"))
    binaries = [str(python), *map(str, library.glob("lib-dynload/*.so"))]
    told = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=True).stdout
    for name in set(re.findall(r"^\t(?:.* => )?(/\S+) \(", told, re.MULTILINE)):
        copy, real = root / name.lstrip("/"), Path(name).resolve()
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        shutil.copy(real, copy.parent / real.name)
        if copy.name != real.name:
            copy.symlink_to(real.name)  # the kernel tells the name of the file, not of the link
    link = root / "usr/bin/python3"
    link.unlink()
    if link != root / python.relative_to("/"):
        link.symlink_to(python)


def no_more(_root: Path) -> None:
    """Add nothing to a root filesystem."""


@contextmanager
def own_stack(
    folder: Path,
    tiny_root: Path,
    digest: str,
    repository: Path,
    add: Callable[[Path], None] = no_more,
) -> Iterator[BlockRequest]:
    """Make the stack in a cache below ``folder``; ``add`` puts into the root filesystem what a workload needs.

    Yields the request of a block in which study, cell, workload and runtimes are still to be named.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_CACHE", str(folder / "cache"))
        patch.delenv(WORKFLOW_VARIABLE, raising=False)
        root = rootfs_dir(digest)
        shutil.copytree(tiny_root, root, symlinks=True)
        copy_python(root)
        add(root)
        image = import_image(root)
        keep_archive(root, digest)
        yield _request(folder, image, digest, repository)
        engine.api().remove_image(image, force=True)
        engine.close()


def _request(folder: Path, image: str, digest: str, repository: Path) -> BlockRequest:
    statuses = {
        "image": {"image_id": image, "digest": digest, "lock_sha256": "l"},
        "rootfs": {"digest": digest},
        "venv": {"python": str(Path(sys.executable).resolve()), "lock_sha256": "l"},
    }
    for form, status in statuses.items():
        (folder / f"{form}.json").write_text(json.dumps({"status": "ok", "reasons": [], **status}))
    return BlockRequest(
        study="",
        cell="",
        workload="",
        stack="hpc",
        factors={},
        block=1,
        seed=1,
        runtimes=(),
        control="",
        threads=None,
        max_attempts=1,
        timeout_seconds=60,
        disturbance=Disturbance(),
        wheel=build_worker(repository, folder, "1"),
        **{form: folder / f"{form}.json" for form in statuses},
        dataset=None,
    )


def keep_archive(root: Path, digest: str) -> None:
    """Keep the root filesystem's archive where the libraries' sums are taken from, and take them."""
    archive_path(digest).parent.mkdir(parents=True, exist_ok=True)
    names = sorted(path.name for path in root.iterdir())
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive_path(digest)), *names], check=True)
    write_libraries(digest)


def import_image(root: Path) -> str:
    """Import a root filesystem as an image and return its id."""
    archive = root.parent / "root.tar"
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
    told = engine.api().import_image_from_file(str(archive))
    archive.unlink()
    return imported_id(told)


def imported_id(told: object) -> str:
    """Return the id of an image from what the engine told about its import."""
    return str(told).rpartition('"status":"')[2].split('"')[0]
