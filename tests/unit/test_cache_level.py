"""The page cache of a run: what each level does, and when it may not be called cold or warm."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted_runtime import block_request, events

from tare import cache_level, ground, page_cache
from tare.cache_level import CacheLevel
from tare.events import Events, read_events
from tare.ground import survey
from tare.page_cache import EvictionResult
from tare.workloads.registry import WORKLOADS

GONE = EvictionResult(1.0, 0.0, "fadvise", True)


class Cache:
    """The kernel's page cache of the files, as far as asked, and what was done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.share = 0.5
        self.eviction = GONE
        self.tells = True

    def evict(self, files: list[Path]) -> EvictionResult:
        self.done.append("evict " + " ".join(path.name for path in files))
        self.share = self.eviction.resident_after
        return self.eviction

    def warm(self, files: list[Path]) -> None:
        self.done.append("warm " + " ".join(path.name for path in files))
        self.share = min(1.0, self.share * 2)

    def resident_share(self, files: list[Path]) -> float:
        assert [path.name for path in files] == ["images"]
        return self.share


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    made = Cache()
    for name in ("evict", "warm", "resident_share"):
        monkeypatch.setattr(page_cache, name, getattr(made, name))
    monkeypatch.setattr(cache_level, "mincore_tells", lambda _: made.tells)
    return made


Make = Callable[..., CacheLevel]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Cache) -> Make:
    del cache
    monkeypatch.setattr(ground.fingerprint, "node_facts", dict)

    def made(level: str, first: bool = False) -> CacheLevel:
        request = block_request(tmp_path / "given")
        request = dataclasses.replace(request, factors={**request.factors, "cache": level})
        return CacheLevel(request, survey(request), first)

    return made


@pytest.fixture
def finished(tmp_path: Path) -> Callable[..., Events]:
    def read(**changes: object) -> Events:
        path = tmp_path / "events.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in events(**changes)))
        return read_events(path)

    return read


def test_cold_evicts_before_every_run(make: Make, cache: Cache, finished: Callable[..., Events]) -> None:
    for first in (True, False):
        level = make("cold", first)
        level.set()
        assert level.resident_before == 0.0
        assert level.flags(finished()) == []
    assert cache.done == ["evict images"] * 2


def test_warm_reads_all_in(make: Make, cache: Cache, finished: Callable[..., Events]) -> None:
    level = make("warm")
    level.set()
    assert (cache.done, level.resident_before) == (["warm images"], 1.0)
    assert level.flags(finished(first={"device_read_bytes": 0})) == []


def test_as_is_evicts_once_a_block_and_then_only_looks(
    make: Make, cache: Cache, finished: Callable[..., Events]
) -> None:
    first, second = make("as-is", True), make("as-is", False)
    first.set()
    assert (cache.done, first.resident_before) == (["evict images"], 0.0)
    cache.share = 0.7  # what the first run has read
    second.set()
    assert (cache.done, second.resident_before) == (["evict images"], 0.7)
    assert second.flags(finished(first={"device_read_bytes": 0})) == []


def test_an_eviction_that_is_not_proved_is_no_cold_start(
    make: Make, cache: Cache, finished: Callable[..., Events]
) -> None:
    cache.eviction = EvictionResult(1.0, 0.4, "fadvise", False, "40% of the data stayed in the page cache")
    level = make("cold")
    level.set()
    assert level.resident_before == 0.4
    assert level.flags(finished()) == [
        "unverified: not proved cold: 40% of the data stayed in the page cache"
    ]


@pytest.mark.parametrize(
    ("read", "expected", "flags"),
    [
        (1000, 1000, []),
        (5000, 1000, []),  # the kernel reads ahead
        (900, 1000, []),
        (
            899,
            1000,
            [
                "unverified: not proved cold: epoch 0 read 899 bytes from the device, 90% of the data it used "
                "(needs 90%)"
            ],
        ),
        (
            None,
            1000,
            [
                "unverified: not proved cold: the kernel does not count the bytes this run read from the device"
            ],
        ),
        (1000, 0, ["unverified: not proved cold: the worker did not say how many bytes of the data it used"]),
    ],
)
def test_cold_is_proved_by_what_epoch_zero_read(
    make: Make, finished: Callable[..., Events], read: int | None, expected: int, flags: list[str]
) -> None:
    level = make("cold")
    level.set()
    done = finished(first={"device_read_bytes": read}, check={"facts": {"bytes_expected": expected}})
    assert level.flags(done) == flags


def test_later_epochs_prove_nothing(make: Make, finished: Callable[..., Events]) -> None:
    level = make("cold")
    level.set()
    assert (
        len(level.flags(finished(first={"device_read_bytes": 0}, steady={"device_read_bytes": 10**6}))) == 1
    )


def test_data_that_memory_does_not_hold_are_not_warm(
    make: Make, cache: Cache, finished: Callable[..., Events]
) -> None:
    cache.share = 0.45
    level = make("warm")
    level.set()
    assert level.flags(finished()) == [
        "unverified: only 90% of the data was in the page cache (warm needs 99 %)"
    ]


@pytest.mark.parametrize("level", ["warm", "as-is"])
def test_where_the_kernel_does_not_tell_nothing_is_claimed(
    make: Make, cache: Cache, finished: Callable[..., Events], level: str
) -> None:
    """mincore says 1.0 to whoever neither owns nor may write a file: that is no number for a table."""
    cache.tells = False
    made = make(level)
    made.set()
    assert made.resident_before is None
    flagged = [flag for flag in made.flags(finished()) if flag.startswith("unverified: ")]
    assert len(flagged) == (1 if level == "warm" else 0)


@pytest.mark.parametrize("level", ["cold", "warm"])
def test_a_run_whose_cache_was_never_set_is_not_called_cold_or_warm(
    make: Make, finished: Callable[..., Events], level: str
) -> None:
    [flag] = make(level).flags(finished())
    assert flag == f"unverified: the page cache was never made {level}: the run did not wait for it"


def test_every_level_of_the_config_is_known(make: Make) -> None:
    for level in cache_level.LEVELS:
        make(level)
    assert WORKLOADS["train-torch-fcn5"].factors["cache"].allowed == cache_level.LEVELS
    with pytest.raises(ValueError, match="cache='tepid' is not possible; allowed: cold, warm, as-is"):
        make("tepid")
