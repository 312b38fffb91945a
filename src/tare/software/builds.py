"""What has been built under which key: the cache's memory, so that an unchanged recipe takes a moment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tare.paths import archive_path, cache_dir
from tare.software.files import write_json


@dataclass(frozen=True)
class Built:
    """A normalised archive in the cache."""

    digest: str
    size: int

    @property
    def archive(self) -> Path:
        """Where the archive lies."""
        return archive_path(self.digest)


def recall(key: str) -> Built | None:
    """Return what was built under ``key``, if the cache still has it whole."""
    record = cache_dir() / "builds" / f"{key}.json"
    if not record.exists():
        return None
    built = Built(**json.loads(record.read_text(encoding="utf-8")))
    whole = built.archive.exists() and built.archive.stat().st_size == built.size
    return built if whole else None


def remember(key: str, built: Built) -> Built:
    """Keep what was built under ``key``."""
    write_json(cache_dir() / "builds" / f"{key}.json", {"digest": built.digest, "size": built.size})
    return built
