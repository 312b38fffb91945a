"""What proves, or disproves, that a file test measured what it claims; pure, a reason for each fault."""

from __future__ import annotations

import math
import time
from typing import Callable, List, Optional, Sequence

#: share of a cached file that must be in the page cache, before and after
CACHED_SHARE = 0.99
#: share of an evicted file that may be in it: pages that another process maps stay
RESIDENT_LIMIT = 0.01
#: share of the bytes asked for that the kernel must have moved to or from a device
DEVICE_SHARE = 0.90
#: a cached file may be read in part from the device by readahead of what was not in the cache
CACHED_DEVICE_SHARE = 0.01
#: the kernel's copy is other code than ours, and the machine may have been busy while the ceiling was taken
CEILING_FACTOR = 1.5
#: fewer requests have no 99th percentile of their own: it would be the largest
P99_REQUESTS = 100

_SOURCE_BYTES, _TARGET_BYTES = 64 << 20, 256 << 10


def memory_bandwidth(repeats: int = 5, clock: Callable[[], int] = time.perf_counter_ns) -> float:
    """Return B/s of copying 64 MiB through a buffer of 256 KiB, best of ``repeats``: what a cached read is at best."""
    source = memoryview(bytearray(_TARGET_BYTES) * (_SOURCE_BYTES // _TARGET_BYTES))
    target = memoryview(bytearray(_TARGET_BYTES))
    best = math.inf
    for _ in range(repeats):
        begun = clock()
        for offset in range(0, _SOURCE_BYTES, _TARGET_BYTES):
            target[:] = source[offset : offset + _TARGET_BYTES]
        best = min(best, clock() - begun)
    return _SOURCE_BYTES / best * 1e9


def bandwidth_reasons(bytes_per_second: float, memory: float) -> List[str]:
    """Return why a bandwidth cannot be that of a file: it is above what memory itself does (B/s)."""
    if bytes_per_second <= CEILING_FACTOR * memory:
        return []
    return [
        "%.3g B/s is above the memory's own bandwidth (%.3g B/s, limit %g times that): no data were moved; "
        "look at the file system under the test file" % (bytes_per_second, memory, CEILING_FACTOR)
    ]


def cached_reasons(before: float, after: float, device: Optional[int], used: int) -> List[str]:
    """Return why reads were not from the page cache; shares 0 to 1, bytes from the device and bytes used."""
    reasons = [
        "%.1f %% of the test file was in the page cache %s the reads, cached needs %.0f %%: free some memory"
        % (share * 100, when, CACHED_SHARE * 100)
        for share, when in ((before, "before"), (after, "after"))
        if share < CACHED_SHARE
    ]
    if device is not None and device > CACHED_DEVICE_SHARE * used:
        reasons.append(
            "%d bytes came from the device while %d bytes were read as cached (limit %.0f %%): free some memory"
            % (device, used, CACHED_DEVICE_SHARE * 100)
        )
    return reasons


def evicted_reasons(share: float, when: str = "before the reads") -> List[str]:
    """Return why the test file was not out of the page cache."""
    if share <= RESIDENT_LIMIT:
        return []
    return [
        "%.1f %% of the test file was in the page cache %s (limit %.0f %%): the file system does not empty it; "
        "use a local disk (ext4, xfs, btrfs)" % (share * 100, when, RESIDENT_LIMIT * 100)
    ]


def device_reasons(what: str, counted: Optional[int], used: int) -> List[str]:
    """Return why ``used`` bytes ("read" or "written", ``what``) did not come from or go to a device."""
    if counted is None:
        return ["the kernel does not count the bytes %s on devices (/proc/self/io): nothing is proved" % what]
    if counted < DEVICE_SHARE * used:
        return [
            "%d bytes were %s on a device, %d bytes by the test (needs %.0f %%): a cache below the kernel's "
            "block layer or memory served them; use a local disk" % (counted, what, used, DEVICE_SHARE * 100)
        ]
    return []


def latency_reasons(times_ns: Sequence[int]) -> List[str]:
    """Return why request times (ns) cannot be right, or are too few for a 99th percentile."""
    if len(times_ns) < P99_REQUESTS:
        return [
            "%d requests are too few for a 99th percentile (needs %d): raise the factor seconds"
            % (len(times_ns), P99_REQUESTS)
        ]
    return zero_reasons(min(times_ns))


def zero_reasons(shortest: float) -> List[str]:
    """Return why the shortest of all request times proves that the clock saw nothing."""
    return [] if shortest > 0 else ["a request took %g ns: no request was made" % shortest]


def quantile(ordered: Sequence[int], share: float) -> int:
    """Return the nearest-rank quantile of sorted values: the smallest that at least ``share`` of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
