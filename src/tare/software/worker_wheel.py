"""The worker wheel: what runs inside every runtime, built byte-identically; an input of every measurement."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tare.software.workflow import WORKER_PARTS

#: 2020-01-01: the date in the wheel says nothing, its content does
EPOCH = 1577836800


def build_worker(root: Path, folder: Path, version: str) -> Path:
    """Return the path of ``tare_worker-<version>-py3-none-any.whl``, built from the repository at ``root``."""
    wheel = {
        "only-include": list(WORKER_PARTS),
        "sources": ["src"],
        "exclude": ["__pycache__", "*.pyc", "*.md"],
    }
    metadata = {"name": "tare-worker", "version": version, "requires-python": ">=3.9"}
    hatch = {"build": {"ignore-vcs": True, "targets": {"wheel": wheel}}}
    builder = WheelBuilder(str(root), config={"project": metadata, "tool": {"hatch": hatch}})
    with _date(EPOCH):
        built = list(builder.build(directory=str(folder), versions=["standard"]))
    return Path(built[0])


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
