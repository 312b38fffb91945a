"""The status files of a stack's forms: always written, also when the form could not be made, and then with why.

Equal results give equal files: no dates, stable order of keys. The venv's is the only one with a path, because
the interpreter is started by it.
"""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tare import gpu
from tare.software.base import ensure_base
from tare.software.debs import fetch_debs
from tare.software.errors import Skipped, SoftwareError
from tare.software.files import write_json
from tare.software.image import ensure_image
from tare.software.locks import StackLock
from tare.software.native import ensure_program
from tare.software.recipe import Recipe
from tare.software.rootfs import ensure_rootfs
from tare.software.safe_delete import MountedBelowError
from tare.software.venv import ensure_host_form
from tare.software.wheels import fetch_wheels

Made = TypeVar("Made")
#: faults whose message says everything; others get their class in front, and their traceback in the log
_EXPECTED = (SoftwareError, MountedBelowError)


def attempt(make: Callable[[], Made], log: Path) -> tuple[str, list[str], Made | None]:
    """Return (status, reasons, what was made): ``ok``, ``skipped`` or ``failed``; the log gets the traceback."""
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        made = make()
    except Skipped as missing:
        log.write_text(f"skipped: {missing}\n", encoding="utf-8")
        return "skipped", [str(missing)], None
    except Exception as fault:
        log.write_text(f"failed: {fault}\n\n{traceback.format_exc()}", encoding="utf-8")
        return (
            "failed",
            [str(fault) if isinstance(fault, _EXPECTED) else f"{type(fault).__name__}: {fault}"],
            None,
        )
    log.write_text("ok\n", encoding="utf-8")
    return "ok", [], made


def debs_status(recipe: Recipe, log: Path) -> dict[str, Any]:
    """Return the status of a lock's Debian packages in the cache."""
    status, reasons, files = attempt(lambda: fetch_debs(recipe.lock.debs(), recipe.base), log)
    return {"stack": recipe.stack, "status": status, "reasons": reasons, "packages": _count(files)}


def wheels_status(recipe: Recipe, log: Path) -> dict[str, Any]:
    """Return the status of a lock's wheels in the cache."""
    status, reasons, files = attempt(lambda: fetch_wheels(_useful(recipe.lock)), log)
    return {"stack": recipe.stack, "status": status, "reasons": reasons, "packages": _count(files)}


def _useful(lock: StackLock) -> StackLock:
    """Return the lock; raises ``Skipped``, before anything is fetched, when it needs a GPU that is not there."""
    lacking = gpu.missing_for(lock)
    if lacking:
        raise Skipped(f"{lacking}; then `make retry ARGS=--skipped`")
    return lock


def _checked(recipe: Recipe) -> Recipe:
    _useful(recipe.lock)
    return recipe


def _count(files: list[Path] | None) -> int | None:
    return None if files is None else len(files)


def base_status(recipe: Recipe, log: Path) -> dict[str, Any]:
    """Return the status of the base archive."""
    status, reasons, built = attempt(
        lambda: ensure_base(recipe.base_lock, recipe.base, recipe.base_folder), log
    )
    return {
        "source": recipe.base.source,
        "status": status,
        "reasons": reasons,
        "digest": built.digest if built else None,
        "size_bytes": built.size if built else None,
    }


def image_status(recipe: Recipe, log: Path) -> dict[str, Any]:
    """Return the status of a stack's image."""
    status, reasons, image = attempt(lambda: ensure_image(_checked(recipe)), log)
    return {
        "stack": recipe.stack,
        "recipe": recipe.folder.name,
        "lock": recipe.lock.name,
        "status": status,
        "reasons": reasons,
        "digest": image.digest if image else None,
        "image_id": image.image_id if image else None,
        "tag": image.tag if image else None,
        "size_bytes": image.size_bytes if image else None,
        "lock_sha256": _lock_sha256(recipe.lock),
    }


def rootfs_status(image: Mapping[str, Any], log: Path) -> dict[str, Any]:
    """Return the status of the root filesystem of an image whose status is ``image``; its fault is this one's too."""
    if image["status"] != "ok":
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{image['status']}, as the image is\n", encoding="utf-8")
        return {
            "stack": image["stack"],
            "status": image["status"],
            "reasons": image["reasons"],
            "digest": None,
        }
    status, reasons, _ = attempt(lambda: ensure_rootfs(image["digest"]), log)
    return {
        "stack": image["stack"],
        "status": status,
        "reasons": reasons,
        "digest": image["digest"] if status == "ok" else None,
    }


def venv_status(stack: str, lock: StackLock, log: Path) -> dict[str, Any]:
    """Return the status of a stack's host form."""
    status, reasons, host = attempt(lambda: ensure_host_form(_useful(lock)), log)
    return {
        "stack": stack,
        "status": status,
        "reasons": reasons,
        "python": host.python if host else None,
        "interpreter_version": host.interpreter_version if host else None,
        "lock_sha256": _lock_sha256(lock),
        "packages": host.packages if host else {},
    }


def native_status(program: str, lock: StackLock, binary: Path, log: Path) -> dict[str, Any]:
    """Return the status of a native program, and put it at ``binary`` (an empty file when it could not be made)."""
    status, reasons, made = attempt(lambda: ensure_program(program, lock), log)
    binary.parent.mkdir(parents=True, exist_ok=True)
    binary.unlink(missing_ok=True)
    if made:
        shutil.copyfile(made.path, binary)
        binary.chmod(0o755)
    else:
        binary.touch()
    return {
        "program": program,
        "status": status,
        "reasons": reasons,
        "path": str(binary) if made else None,
        "sha256": made.sha256 if made else None,
        "compiler": made.compiler if made else None,
        "compiler_sha256": made.compiler_sha256 if made else None,
        "target": made.target if made else None,
        "flags": made.flags if made else [],
    }


def _lock_sha256(lock: StackLock) -> str | None:
    """Return the hash of the locks; None when one of them is absent, which the reasons then say."""
    try:
        return lock.sha256()
    except SoftwareError:
        return None


def read(path: Path) -> dict[str, Any]:
    """Return a status file."""
    status: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return status


def write(path: Path, status: Mapping[str, Any]) -> None:
    """Write a status file."""
    write_json(path, status)
