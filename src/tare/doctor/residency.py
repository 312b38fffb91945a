"""Whether a file's pages can be sent away from the page cache on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from tare.worker import page_cache


def evicts(path: Path) -> bool | None:
    """Return whether a warmed clean file leaves the page cache on request; None when that cannot be proved."""
    try:
        path.read_bytes()
        if not os.access(path, os.W_OK) or page_cache.resident_share(path) != 1.0:
            return None
        page_cache.put_out(path)
        return page_cache.resident_share(path) < 0.1
    except OSError:
        return None
