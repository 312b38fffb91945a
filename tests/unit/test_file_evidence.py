"""What proves a file test: every limit from both sides, and what each reason tells."""

from __future__ import annotations

import pytest

from tare.workloads import file_evidence as evidence

GB = 10**9


@pytest.mark.parametrize(
    ("bandwidth", "memory", "refused"),
    [
        (85 * GB, 30 * GB, True),  # case 28: fio on a sparse file
        (45 * GB, 30 * GB, False),  # exactly at the limit
        (45 * GB + 1, 30 * GB, True),
        (2 * GB, 30 * GB, False),
    ],
)
def test_bandwidth_above_memory_is_no_bandwidth(bandwidth: float, memory: float, refused: bool) -> None:
    found = evidence.bandwidth_reasons(bandwidth, memory)
    assert bool(found) is refused
    assert not refused or "above the memory's own bandwidth (3e+10 B/s, limit 1.5 times that)" in found[0]


def test_memory_bandwidth_is_that_of_the_best_repeat() -> None:
    ticks = iter([0, 64 << 20, 100, 100 + (32 << 20), 0, 128 << 20])
    assert evidence.memory_bandwidth(3, lambda: next(ticks)) == pytest.approx(2e9)


@pytest.mark.parametrize(
    ("before", "after", "device", "says"),
    [
        (1.0, 1.0, 0, []),
        (0.99, 0.99, 10, []),
        (1.0, 1.0, None, []),  # not counted: mincore alone decides
        (0.98, 1.0, 0, ["98.0 % of the test file was in the page cache before"]),
        (1.0, 0.5, 0, ["50.0 % of the test file was in the page cache after"]),
        (1.0, 1.0, 11, ["11 bytes came from the device while 1000 bytes were read as cached"]),
        (0.0, 0.0, 1000, ["before", "after", "1000 bytes came from the device"]),
    ],
)
def test_cached_reads_are_of_the_page_cache(
    before: float, after: float, device: int | None, says: list[str]
) -> None:
    found = evidence.cached_reasons(before, after, device, 1000)
    assert len(found) == len(says)
    assert all(text in reason for text, reason in zip(says, found, strict=True))


@pytest.mark.parametrize(("share", "refused"), [(0.0, False), (0.01, False), (0.011, True), (1.0, True)])
def test_evicted_is_out_of_the_page_cache(share: float, refused: bool) -> None:
    found = evidence.evicted_reasons(share, "after reads")
    assert bool(found) is refused
    assert not refused or "page cache after reads (limit 1 %)" in found[0]


@pytest.mark.parametrize(
    ("counted", "says"),
    [
        (1000, None),
        (900, None),
        (899, "899 bytes were read on a device, 1000 bytes by the test (needs 90 %)"),
        (0, "0 bytes were read on a device"),
        (None, "the kernel does not count the bytes read on devices"),
    ],
)
def test_direct_reads_come_from_a_device(counted: int | None, says: str | None) -> None:
    found = evidence.device_reasons("read", counted, 1000)
    assert len(found) == (says is not None)
    assert says is None or says in found[0]


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ([5] * 100, None),
        ([5] * 99, "99 requests are too few for a 99th percentile (needs 100)"),
        ([], "0 requests are too few"),
        ([5] * 100 + [0], "a request took 0 ns"),
    ],
)
def test_request_times_must_be_many_and_positive(times: list[int], says: str | None) -> None:
    found = evidence.latency_reasons(times)
    assert len(found) == (says is not None)
    assert says is None or says in found[0]


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.01, 1), (0.011, 2), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)]
)
def test_quantile_is_the_nearest_rank(share: float, expected: int) -> None:
    assert evidence.quantile(list(range(1, 101)), share) == expected


def test_quantile_of_one() -> None:
    assert [evidence.quantile([7], share) for share in (0.0, 0.5, 1.0)] == [7, 7, 7]
