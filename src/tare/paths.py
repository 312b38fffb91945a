"""Where things lie. ``results/`` is Snakemake's; what is big and keyed by content lies in the cache beside it.

Root filesystems must never lie inside a Snakemake output: a tool that deletes outputs would follow a mount.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the content-addressed store: TARE_CACHE, else /var/cache/tare for root, else XDG's ~/.cache/tare."""
    chosen = os.environ.get("TARE_CACHE")
    if chosen:
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/tare")
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "tare"


def rootfs_dir(digest: str) -> Path:
    """Return the folder of the extracted root filesystem of an image's content digest (``sha256:…``)."""
    return cache_dir() / "rootfs" / digest.removeprefix("sha256:")


def archive_path(digest: str) -> Path:
    """Return the normalised root filesystem archive (tar) of a content digest; its sha256 is the digest."""
    return cache_dir() / "archives" / f"{digest.removeprefix('sha256:')}.tar"


def libraries_path(digest: str) -> Path:
    """Return the JSON manifest (absolute path in the image → sha256) of an archive's shared objects."""
    return cache_dir() / "archives" / f"{digest.removeprefix('sha256:')}.libraries.json"
