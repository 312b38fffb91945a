"""Whether this process may use loader processes: not more than CPUs, and with room in /dev/shm for their batches.

Too many workers freeze small machines (pytorch/pytorch#193859); a container's 64 MiB of shared memory ends in a
bus error or a hang (pytorch/pytorch#5040). Standard library only, for every framework.
"""

from __future__ import annotations

from typing import Optional

#: batches a worker prepares ahead (PyTorch's default)
PREFETCH = 2
#: room for each batch in flight: as much again, since freed segments are unlinked late
SAFETY = 2
#: what PyTorch says of a loader process without shared memory: it dies by SIGBUS, or its batch never comes
SHM_SIGNS = ("Bus error", "timed out", "shared memory(shm)")


class LoaderError(ValueError):
    """Loader processes that cannot be used here; the message gives the limit and the fix."""


def shm_needed(workers: int, batch_bytes: int) -> int:
    """Return the stated minimum of free bytes in /dev/shm: every batch in flight, twice."""
    return SAFETY * workers * PREFETCH * batch_bytes


def check_workers(workers: int, cpus: int, shm_free: Optional[int], batch_bytes: int) -> None:
    """Raise ``LoaderError`` unless ``workers`` fit the effective CPUs and the free bytes of /dev/shm (None: absent)."""
    if workers > cpus:
        raise LoaderError(
            "workers: %d is more than the %d effective CPUs (affinity and quota); allowed: 0 … %d"
            % (workers, cpus, cpus)
        )
    needed = shm_needed(workers, batch_bytes)
    if needed > (shm_free or 0):
        raise LoaderError(
            "shm-too-small: workers=%d needs %d bytes free in /dev/shm, there are %s; "
            "use workers=0, a smaller batch, or a larger /dev/shm in every runtime alike"
            % (workers, needed, "none" if shm_free is None else shm_free)
        )


def loader_failure(error: BaseException) -> Optional[LoaderError]:
    """Return what an error of a loader says, by its cause; None when no loader process died or hung.

    PyTorch says "exited unexpectedly" and leaves the signal to the error's cause.
    """
    texts = []
    cause: Optional[BaseException] = error
    while cause is not None:
        texts.append(" ".join(str(cause).split()))
        cause = cause.__cause__
    said = "; ".join(texts)
    if "DataLoader worker (pid" not in said and "DataLoader timed out" not in said:
        return None
    memory = any(sign in said for sign in SHM_SIGNS)
    return LoaderError(
        "%sa loader process died or hung (%s); use workers=0, or a larger /dev/shm in every runtime alike"
        % ("shm-too-small: " if memory else "", said)
    )
