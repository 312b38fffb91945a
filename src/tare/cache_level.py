"""The factor `cache` of a run: sets the page cache of the data set before epoch 0 and proves what it set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tare import page_cache
from tare.events import Events
from tare.ground import BlockRequest, Ground
from tare.worker.page_cache import mincore_tells

LEVELS = ("cold", "warm", "as-is")
WARM_SHARE = 0.99


class CacheLevel:
    """Sets the page cache between ``ready`` and epoch 0 (``set``), and remembers what it found and did.

    ``resident_before`` is the share of the data in the page cache then; None where the kernel does not tell.
    """

    def __init__(self, request: BlockRequest, ground: Ground, first: bool) -> None:
        self._level = request.factors.get("cache")
        if request.spec.cached and self._level not in LEVELS:
            raise ValueError(f"cache={self._level!r} is not possible; allowed: {', '.join(LEVELS)}")
        self._ground = ground
        #: what the level means for this run: as-is evicts once per block, then claims nothing
        self._wanted = "cold" if self._level == "as-is" and first else self._level
        self._was_set = False
        self.resident_before: float | None = None
        self.eviction: page_cache.EvictionResult | None = None

    def set(self) -> None:
        """Evict, read in or leave the data set's pages, as the factor says."""
        files = self._ground.data_files()
        self._was_set = True
        if self._wanted == "cold":
            self.eviction = page_cache.evict(files)
            self.resident_before = self.eviction.resident_after
            return
        if self._wanted == "warm":
            page_cache.warm(files)
        self.resident_before = _resident_share(files)

    def flags(self, events: Events) -> list[str]:
        """Return `unverified: …` where a cold or warm start could not be proved."""
        if self._wanted == "as-is":
            return []
        if not self._was_set:
            return [f"unverified: the page cache was never made {self._wanted}: the run did not wait for it"]
        return self._warm_flags() if self.eviction is None else self._cold_flags(self.eviction, events)

    def _warm_flags(self) -> list[str]:
        share = self.resident_before
        if share is None:
            return [
                "unverified: not proved warm: mincore tells the truth only to the owner or a writer of a file; "
                "copy the data to a folder of your own"
            ]
        if share < WARM_SHARE:
            return [f"unverified: only {share:.0%} of the data was in the page cache (warm needs 99 %)"]
        return []

    @staticmethod
    def _cold_flags(eviction: page_cache.EvictionResult, events: Events) -> list[str]:
        if not eviction.verified:
            return [f"unverified: not proved cold: {eviction.reason}"]
        read = [s.device_read_bytes for s in events.samples if s.metric == "epoch_seconds" and s.epoch == 0]
        facts = (events.check or {}).get("facts", {})
        proof = page_cache.cold_proof(
            eviction.resident_after, read[0] if read else None, facts.get("bytes_expected", 0)
        )
        return [f"unverified: not proved cold: {reason}" for reason in proof.reasons]


def _resident_share(files: Sequence[Path]) -> float | None:
    return page_cache.resident_share(files) if all(map(mincore_tells, files)) else None
