"""Whether a file's pages are in the page cache (mincore(2)), and whether they can be sent away."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path


def resident_share(path: Path) -> float | None:
    """Return the share of a file's pages in the page cache, 0 to 1; None when the kernel does not tell."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    with path.open("rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        if address in (None, ctypes.c_void_p(-1).value):
            return None
        seen = ctypes.create_string_buffer(pages)
        try:
            if libc.mincore(address, size, seen) != 0:
                return None
        finally:
            libc.munmap(address, size)
    return sum(byte & 1 for byte in seen.raw) / pages


def evicts(path: Path) -> bool | None:
    """Return whether a warmed clean file leaves the page cache on request; None when that cannot be proved."""
    try:
        path.read_bytes()
        if not os.access(path, os.W_OK) or resident_share(path) != 1.0:
            return None
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        share = resident_share(path)
    except (OSError, AttributeError):
        return None
    return None if share is None else share < 0.1
