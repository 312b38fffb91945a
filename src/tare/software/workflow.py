"""What the rules ask: which files a result depends on. Quick to import: every Snakemake start does."""

from __future__ import annotations

from pathlib import Path

from tare import __version__, gpu
from tare.software import native
from tare.software.locks import StackLock
from tare.software.recipe import CONTAINERS, ENVS, recipe_files

#: what the worker wheel holds
WORKER_PARTS = ("src/tare/__init__.py", "src/tare/worker", "src/tare/workloads")


def get_base(lock: str) -> list[str]:
    """Return the status file of the base that a lock's image is built on; none where the image is skipped anyway."""
    return [] if gpu.missing_for(StackLock(ENVS, lock)) else ["results/software/base/base.json"]


def get_recipe_files(recipe: str) -> list[str]:
    """Return every file of a recipe's folder; they all belong to the image."""
    return [str(path) for path in recipe_files(CONTAINERS / recipe)]


def worker_code(root: Path = Path()) -> list[str]:
    """Return the sources of the worker wheel below ``root``, relative to it, sorted."""
    parts = [root / part for part in WORKER_PARTS]
    files = [path for part in parts for path in ([part] if part.is_file() else part.rglob("*.py"))]
    return sorted(str(path.relative_to(root)) for path in files)


def get_wheel() -> str:
    """Return the path of the worker wheel."""
    return f"results/software/worker/tare_worker-{__version__}-py3-none-any.whl"


def get_programs() -> list[str]:
    """Return the names of the native programs."""
    return native.programs()


def get_native_sources(program: str) -> list[str]:
    """Return every file that a native program is made of."""
    return [str(path) for path in native.sources(program)]
