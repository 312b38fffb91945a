"""The factor `cache` of a run: sets the page cache of the data set before epoch 0 and proves what it set."""

from __future__ import annotations

from tare import page_cache
from tare.events import Events
from tare.ground import BlockRequest, Ground


class CacheLevel:
    """Sets the page cache between ``ready`` and epoch 0 (``set``), and remembers what it found and did."""

    def __init__(self, request: BlockRequest, ground: Ground, first: bool) -> None:
        self._level = request.factors.get("cache")
        self._ground = ground
        self._first = first
        self.resident_before: float | None = None
        self.eviction: page_cache.EvictionResult | None = None

    def set(self) -> None:
        """Evict, read in or leave the data set's pages, as the factor says."""
        files = self._ground.data_files()
        if self._level == "cold" or (self._level == "as-is" and self._first):
            self.eviction = page_cache.evict(files)
            self.resident_before = self.eviction.resident_after
            return
        if self._level == "warm":
            page_cache.warm(files)
        self.resident_before = page_cache.resident_share(files)

    def flags(self, events: Events) -> list[str]:
        """Return `unverified: …` where a cold or warm start could not be proved."""
        if self._level == "warm" and (self.resident_before or 0) < 0.99:
            return [
                f"unverified: only {self.resident_before:.0%} of the data was in the page cache (warm needs 99 %)"
            ]
        if self.eviction is None:
            return []
        if not self.eviction.verified:
            return [f"unverified: not proved cold: {self.eviction.reason}"]
        read = [s.device_read_bytes for s in events.samples if s.metric == "epoch_seconds" and s.epoch == 0]
        facts = (events.check or {}).get("facts", {})
        proof = page_cache.cold_proof(
            self.eviction.resident_after, read[0] if read else None, facts.get("bytes_expected", 0)
        )
        return [f"unverified: not proved cold: {reason}" for reason in proof.reasons]
