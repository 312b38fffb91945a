"""The worker wheel: what runs inside every runtime, built byte-identically; an input of every measurement."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tare.software.files import scratch
from tare.software.workflow import worker_code

#: 2020-01-01: the date in the wheel says nothing, its content does
EPOCH = 1577836800


def build_worker(root: Path, folder: Path, version: str) -> Path:
    """Return the path of ``tare_worker-<version>-py3-none-any.whl``, built from the repository at ``root``.

    It is built from a copy with fixed permissions: those of a checkout depend on the umask, and would be kept.
    """
    folder = folder.absolute()
    metadata = {"name": "tare-worker", "version": version, "requires-python": ">=3.9"}
    hatch = {"build": {"ignore-vcs": True, "targets": {"wheel": {"packages": ["src/tare"]}}}}
    with scratch("worker") as copy, _date(EPOCH):
        for name in worker_code(root):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, target)
            target.chmod(0o644)
        builder = WheelBuilder(str(copy), config={"project": metadata, "tool": {"hatch": hatch}})
        return Path(next(iter(builder.build(directory=str(folder), versions=["standard"]))))


@contextmanager
def _date(epoch: int) -> Iterator[None]:
    """Set SOURCE_DATE_EPOCH, which hatchling reads from the environment only."""
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    try:
        yield
    finally:
        del os.environ["SOURCE_DATE_EPOCH"]
        if before is not None:
            os.environ["SOURCE_DATE_EPOCH"] = before
