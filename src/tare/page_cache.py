"""The kernel's page cache of a data set: how much of it is there, putting it out, reading it in, and the proof.

Cold is a fact, not a hope: nothing here calls a file absent that the kernel did not tell to be absent. The
system calls are the worker's (``tare.worker.page_cache``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.worker.mounts import mount_of, parse_mountinfo
from tare.worker.page_cache import mincore_tells, put_out, read_in, resident_pages

#: file systems of a local disk on which posix_fadvise(DONTNEED) is known to empty the page cache, and this is
#: the only cache of the kernel; network file systems, ZFS, FUSE and overlays have others
LOCAL_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
#: share that may stay resident in a cold start: pages that another process maps cannot be put out
RESIDENT_LIMIT = 0.01
#: share of the data that must come from the device in epoch 0 (design.md §6)
DEVICE_SHARE = 0.90
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class EvictionResult:
    """What became of an eviction. ``verified``: the data set is proved absent; else ``reason`` says why not."""

    resident_before: float
    resident_after: float
    method: str  # fadvise | fadvise+drop_caches
    verified: bool
    reason: str = ""


@dataclass(frozen=True)
class ColdProof:
    """Whether a run started cold; ``reasons`` is empty when it did."""

    ok: bool
    reasons: tuple[str, ...] = ()


def resident_share(paths: Iterable[Path]) -> float:
    """Return the share (0 to 1, by pages) of the files in the page cache; 0 when they are empty. Reads no page.

    Raises ``OSError`` for a file that cannot be opened. See ``distrust`` for when to believe it.
    """
    counts = [resident_pages(path) for path in paths]
    total = sum(pages for _, pages in counts)
    return sum(resident for resident, _ in counts) / total if total else 0.0


def evict(paths: Sequence[Path], drop_caches: Path = DROP_CACHES) -> EvictionResult:
    """Put the files out of the page cache and say whether that is proved.

    Writes back what is dirty, advises the kernel file by file (no root needed); what stays then needs root, and
    takes every other file's cache with it.
    """
    before = resident_share(paths)
    os.sync()
    for path in paths:
        put_out(path)
    after, method, hindrance = resident_share(paths), "fadvise", ""
    if after > RESIDENT_LIMIT:
        hindrance = _drop(drop_caches)
        if not hindrance:
            after, method = resident_share(paths), "fadvise+drop_caches"
    reasons = distrust(paths)
    if after > RESIDENT_LIMIT:
        reasons.append(f"{after:.0%} of the data stayed in the page cache{hindrance}")
    return EvictionResult(before, after, method, not reasons, "; ".join(reasons))


def _drop(drop_caches: Path) -> str:
    """Drop all clean pages of the machine; return why it is not possible, else an empty text."""
    try:
        drop_caches.write_text("1\n", encoding="ascii")
    except OSError as error:
        return f", and {drop_caches} cannot be written ({error.strerror}): copy the data to a disk of this machine"
    return ""


def warm(paths: Iterable[Path]) -> None:
    """Read the files whole, so that as much of them is in the page cache as memory allows."""
    for path in paths:
        read_in(path)


def distrust(paths: Iterable[Path]) -> list[str]:
    """Return why the page cache of these files cannot be proved or controlled; empty when it can. Each once."""
    reasons: dict[str, None] = {}
    for path in paths:
        if not mincore_tells(path):
            reasons[
                "mincore tells the truth only to the owner or a writer of a file, and this user is neither of "
                f"{path}: copy the data to a folder of your own"
            ] = None
        kind = file_system(path)
        if kind not in LOCAL_FILE_SYSTEMS:
            reasons[
                f"on file system {kind} the kernel's page cache is not the only one or cannot be emptied "
                f"(known to work: {', '.join(LOCAL_FILE_SYSTEMS)}): copy the data to a local disk"
            ] = None
    return list(reasons)


def file_system(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of the file system that ``path`` lies on, `unknown` when no mount is told."""
    mounts = parse_mountinfo(mountinfo.read_text(encoding="utf-8", errors="surrogateescape"))
    mount = mount_of(os.path.realpath(path), mounts)
    return mount.type if mount else "unknown"


def cold_proof(resident_after: float, device_read_bytes: int | None, bytes_expected: int) -> ColdProof:
    """Return whether epoch 0 started cold: nothing resident, and ≥ 90 % of the bytes it used came from the device.

    ``bytes_expected``: bytes of the data that epoch 0 uses. The kernel reads ahead, so more may be read: only
    too little is a fault. ``device_read_bytes`` None: the kernel does not count it.
    """
    reasons = []
    if resident_after > RESIDENT_LIMIT:
        reasons.append(f"{resident_after:.0%} of the data was in the page cache (limit {RESIDENT_LIMIT:.0%})")
    if bytes_expected <= 0:
        reasons.append("the worker did not say how many bytes of the data it used")
    elif device_read_bytes is None:
        reasons.append("the kernel does not count the bytes this run read from the device")
    elif device_read_bytes < DEVICE_SHARE * bytes_expected:
        reasons.append(
            f"epoch 0 read {device_read_bytes} bytes from the device, "
            f"{device_read_bytes / bytes_expected:.0%} of the data it used (needs {DEVICE_SHARE:.0%})"
        )
    return ColdProof(not reasons, tuple(reasons))
