"""What the kernel says about a file's pages in its page cache, and the advice to put them out.

The system calls alone, for the worker and for the measuring side (``tare.page_cache``, which judges them).
mincore(2) tells the truth only to a file's owner and to those who may write it (Linux ≥ 5.2); to others every
page seems resident.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Tuple

_WINDOW_BYTES = 1 << 30
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_MAP_FAILED = ctypes.c_void_p(-1).value


def resident_pages(path: "os.PathLike[str] | str") -> Tuple[int, int]:
    """Return (resident pages, all pages) of one file; reads no page. Raises ``OSError``."""
    resident = total = 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        for offset in range(0, size, _WINDOW_BYTES):
            vector = _mincore(file.fileno(), offset, min(_WINDOW_BYTES, size - offset))
            total += len(vector)
            resident += sum(byte & 1 for byte in vector)
    return resident, total


def resident_share(path: "os.PathLike[str] | str") -> float:
    """Return the share (0 to 1, by pages) of one file in the page cache; 0 when it is empty."""
    resident, total = resident_pages(path)
    return resident / total if total else 0.0


def put_out(path: "os.PathLike[str] | str") -> None:
    """Advise the kernel to drop the file's clean pages; what is dirty stays: write it back before."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_in(path: "os.PathLike[str] | str") -> None:
    """Read the file whole, so that as much of it is in the page cache as memory allows."""
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(1 << 20)
        while file.readinto(buffer):
            pass


def mincore_tells(path: "os.PathLike[str] | str") -> bool:
    """Return whether the kernel tells this user the truth about the file: its owner, a writer, or root."""
    return os.geteuid() in (0, os.stat(path).st_uid) or os.access(path, os.W_OK, effective_ids=True)


def _mincore(handle: int, offset: int, length: int) -> bytes:
    address = _LIBC.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, handle, offset)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap: %s" % os.strerror(ctypes.get_errno()))
    try:
        vector = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        if _LIBC.mincore(address, length, vector) != 0:
            raise OSError(ctypes.get_errno(), "mincore: %s" % os.strerror(ctypes.get_errno()))
        return vector.raw
    finally:
        _LIBC.munmap(address, length)
