"""Whether a number of threads or ranks can be measured here; pure."""

from __future__ import annotations

from typing import List


def thread_reasons(threads: int, effective: int, what: str = "threads") -> List[str]:
    """Return why a number of threads cannot be measured: more than CPUs take turns instead of working at once."""
    if threads <= effective:
        return []
    return ["%s: %d asked for, %d effective CPUs; set threads to at most that" % (what, threads, effective)]
