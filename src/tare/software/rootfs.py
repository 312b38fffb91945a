"""The root filesystem of an image's archive, extracted for ``chroot``: whole, or not there at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tare.paths import archive_path, rootfs_dir
from tare.software.errors import SoftwareError
from tare.software.files import scratch, sha256_file, write_text
from tare.software.safe_delete import remove_tree


def marker(digest: str) -> Path:
    """Return the file that says the root filesystem is complete; outside it, so that no run can fake it."""
    folder = rootfs_dir(digest)
    return folder.with_name(f"{folder.name}.complete")


def ensure_rootfs(digest: str) -> Path:
    """Return the folder of the extracted root filesystem; root keeps the owners, others extract as themselves.

    Raises ``SoftwareError`` when the archive is absent or damaged, ``MountedBelowError`` when an incomplete
    root filesystem is still mounted.
    """
    folder = rootfs_dir(digest)
    if folder.is_dir() and marker(digest).is_file():
        return folder
    archive = archive_path(digest)
    if not archive.exists() or f"sha256:{sha256_file(archive)}" != digest:
        archive.unlink(missing_ok=True)
        raise SoftwareError(f"the archive of {digest} is absent or damaged; remove image.json and run again")
    remove_tree(folder)
    with scratch("rootfs") as draft:
        root = draft / "root"
        root.mkdir(mode=0o755)
        _extract(archive, root)
        root.chmod(0o755)
        folder.parent.mkdir(parents=True, exist_ok=True)
        root.rename(folder)
    write_text(marker(digest), f"{digest}\n")
    return folder


def _extract(archive: Path, folder: Path) -> None:
    owner = "--same-owner" if os.geteuid() == 0 else "--no-same-owner"
    command = [
        "tar",
        "--extract",
        "--same-permissions",
        "--numeric-owner",
        owner,
        "--delay-directory-restore",
    ]
    done = subprocess.run(
        [*command, "--file", str(archive), "--directory", str(folder)],
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = " ".join(done.stderr.strip().splitlines()[-3:])
        raise SoftwareError(
            f"the root filesystem cannot be extracted to {folder.parent}: {last}; is the disk full?"
        )
