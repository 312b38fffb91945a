"""A test file as a disk test needs it: random data, on a disk, on the device before anything is measured."""

from __future__ import annotations

import ctypes
import os
from typing import List, Optional

from tare.worker import page_cache

MIB = 1 << 20
#: room that is left beside a test file: a full disk is another disk
SPARE_BYTES = 64 * MIB
#: f_type of statfs(2) → file system that keeps its bytes in memory (linux/magic.h)
_MEMORY_MAGIC = {0x01021994: "tmpfs", 0x858458F6: "ramfs", 0x958458F6: "hugetlbfs"}
#: random bytes made at once
_BLOCK_BYTES = 16 * MIB


class WrittenFileError(RuntimeError):
    """No test file can be had here; the message names the folder, what is needed and the fix."""


def require_disk(folder: str, size: int, magic: Optional[int] = None) -> None:
    """Raise ``WrittenFileError`` where ``folder`` is memory, cannot be written, or lacks room for ``size`` bytes.

    ``magic``: the file system's type as statfs(2) tells it, asked of the kernel by default.
    """
    memory = _MEMORY_MAGIC.get(file_system_magic(folder) if magic is None else magic)
    if memory:
        raise WrittenFileError(
            "%s lies on %s, which is memory, no disk; allowed: a file system on a device: put it on a disk"
            % (folder, memory)
        )
    if not os.access(folder, os.W_OK):
        raise WrittenFileError(
            "%s cannot be written by this run (read-only or not its own); choose another location: "
            "bind and volume can be written in every runtime" % folder
        )
    told = os.statvfs(folder)
    free = told.f_frsize * told.f_bavail
    if free < size + SPARE_BYTES:
        raise WrittenFileError(
            "%s: %d MiB free, a test file of %d MiB needs %d MiB; free some space or choose a smaller size"
            % (folder, free // MIB, size // MIB, (size + SPARE_BYTES) // MIB)
        )


def file_system_magic(path: str) -> int:
    """Return f_type of statfs(2), which Python's ``os.statvfs`` leaves out. Raises ``OSError``."""
    buffer = (ctypes.c_ulong * 64)()
    if ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(path), ctypes.byref(buffer)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return int(buffer[0]) & 0xFFFFFFFF


def create(path: str, size: int) -> None:
    """Write ``size`` random bytes to a new file and wait until they are on the device.

    Random, because zeros are stored as holes or compressed by some file systems and devices.
    """
    require_disk(os.path.dirname(path), size)
    with open(path, "wb", buffering=0) as file:
        left = size
        while left:
            block = memoryview(os.urandom(min(left, _BLOCK_BYTES)))
            while block:
                done = file.write(block)
                block, left = block[done:], left - done
        os.fsync(file.fileno())


def sparse_reasons(path: str, size: int, blocks: Optional[int] = None) -> List[str]:
    """Return why a file is no file of ``size`` written bytes; ``blocks`` (of 512 bytes) as stat(2) tells."""
    told = os.stat(path)
    found = told.st_blocks if blocks is None else blocks
    if told.st_size != size:
        return ["%s has %d bytes, not %d: it was changed meanwhile" % (path, told.st_size, size)]
    if found * 512 < size:
        return [
            "%s has only %d of %d bytes on the device (sparse or compressed): reading it is no disk test; "
            "use a file system that stores what is written" % (path, found * 512, size)
        ]
    return []


def cache_in(path: str) -> float:
    """Read the file into the page cache; return the share that is there now."""
    page_cache.read_in(path)
    return page_cache.resident_share(path)


def cache_out(path: str) -> float:
    """Put the (written back) file out of the page cache; return the share that is still there."""
    page_cache.put_out(path)
    return page_cache.resident_share(path)
