"""The ioping adapter: its commands, its samples, and each way in which a run is not what it claims."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapter_requests import adapter_request
from tare.worker import page_cache
from tare.workloads import file_evidence, io_ping, tool, written_file
from tare.workloads.io_ping import IoPing

SINGLE = "".join(f"1 {ns} 9 9 {ns} {ns} {ns} 0 1 {ns}\n" for ns in range(1001, 1101))
SINGLE_WHOLE = SINGLE + "100 105050 951 9 1001 1050 1100 28 101 200000\n"
RATES = "100 100000 9 9 900 1000 1100 1 101 100000000\n200 400000 9 9 900 2000 1100 1 200 100000000\n"
RATES_WHOLE = RATES + "300 500000 9 9 900 1666 1100 1 301 200000000\n"
REQUESTS = 301 + 101
LATENCIES = json.dumps(
    [{"io": {"time": ns, "ignored": number == 0}} for number, ns in enumerate([9, *range(100, 120)])]
)


class World:
    """What surrounds the adapter: how much of the file is resident, what the device counts, what ioping says."""

    def __init__(self) -> None:
        self.before, self.after = 0.0, 0.0
        self.device: list[int | None] = [0, 10**9]
        self.outputs = [tool.Said(0, RATES_WHOLE, ""), tool.Said(0, SINGLE_WHOLE, "")]
        self.called: list[list[str]] = []

    def run(self, command: list[str], folder: str) -> tool.Said:
        self.called.append(command)
        assert Path(folder).is_dir()
        return self.outputs[len(self.called) - 1]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(io_ping, "FILE_BYTES", 8192)
    monkeypatch.setattr(written_file, "require_disk", lambda *_: None)
    monkeypatch.setattr(written_file, "cache_in", lambda _: made.before)
    monkeypatch.setattr(written_file, "cache_out", lambda _: made.before)
    monkeypatch.setattr(page_cache, "resident_share", lambda _: made.after)
    monkeypatch.setattr(io_ping, "device_read_bytes", lambda: made.device.pop(0))
    monkeypatch.setattr(tool, "find", lambda name, _: f"/usr/bin/{name}")
    monkeypatch.setattr(tool, "run", made.run)
    monkeypatch.setattr(file_evidence, "memory_bandwidth", lambda: 30e9)
    return made


Make = Callable[..., IoPing]


@pytest.fixture
def ran(world: World, tmp_path: Path) -> Make:  # noqa: ARG001 - what it runs in
    def make(name: str, **factors: Any) -> IoPing:
        files = tmp_path / "files"
        files.mkdir()
        task = io_ping.set_up(adapter_request(name, tmp_path, factors, files=str(files)))
        for _ in task.steps(0):
            pass
        return task

    return make


@pytest.mark.parametrize(
    ("name", "options", "size"),
    [
        ("io-cached-random", ["-C", "-R"], 4096),
        ("io-cached-sequential", ["-C", "-R", "-L"], 262144),
        ("io-direct-random", ["-D", "-R"], 4096),
        ("io-direct-sequential", ["-D", "-R", "-L"], 262144),
    ],
)
def test_commands_are_those_of_the_study(
    world: World, ran: Make, tmp_path: Path, name: str, options: list[str], size: int
) -> None:
    ran(name, seconds=5)
    start = ["/usr/bin/ioping", "-B", *options, "-w", "5"]
    end = ["-S", "8192", "-s", str(size), "-e", "6", str(tmp_path / "files/ioping.data")]
    assert world.called == [[*start, "-P", "0.1", *end], [*start, "-p", "1", *end]]


def test_latency_is_of_single_requests_without_options(world: World, ran: Make, tmp_path: Path) -> None:
    world.outputs = [tool.Said(0, LATENCIES, "")]
    task = ran("io-latency")
    path = str(tmp_path / "files/ioping.data")
    start = ["/usr/bin/ioping", "-J", "-c", "21", "-i", "50ms"]
    assert world.called == [[*start, "-S", "8192", "-s", "4096", "-e", "6", path]]
    assert [sample["value"] for sample in task.samples()] == [ns * 1e-9 for ns in range(100, 120)]
    assert {(s["metric"], s["unit"], s["phase"]) for s in task.samples()} == {
        ("request_seconds", "s", "steady")
    }
    assert task.check().reasons == []


@pytest.mark.parametrize(
    ("name", "metric", "unit", "values"),
    [
        ("io-direct-random", "requests_per_second", "request/s", [1e6, 5e5]),
        ("io-direct-sequential", "bytes_per_second", "B/s", [262144e6, 262144 * 5e5]),
    ],
)
def test_samples_are_rates_and_two_quantiles(
    ran: Make, name: str, metric: str, unit: str, values: list[float]
) -> None:
    found = [(s["metric"], s["index"], s["value"], s["unit"]) for s in ran(name).samples()]
    assert found == [
        *((metric, index, pytest.approx(value), unit) for index, value in enumerate(values)),
        ("request_seconds_p50", 0, pytest.approx(1.050e-6), "s"),
        ("request_seconds_p99", 0, pytest.approx(1.099e-6), "s"),
    ]


@pytest.mark.parametrize("workload", io_ping.WORKLOADS, ids=lambda workload: workload.name)
def test_samples_have_the_declared_metrics(world: World, ran: Make, workload: Any) -> None:
    if workload.name == "io-latency":
        world.outputs = [tool.Said(0, LATENCIES, "")]
    found = {(s["metric"], s["unit"], s["phase"]) for s in ran(workload.name).samples()}
    assert found == {(metric.name, metric.unit, metric.phase) for metric in workload.metrics}


def test_a_good_direct_run_is_valid_and_says_what_it_did(ran: Make, tmp_path: Path) -> None:
    check = ran("io-direct-random").check()
    assert check.reasons == []
    assert check.facts["work"] == {
        "file_bytes": 8192,
        "request_bytes": 4096,
        "settings": ["-D", "-R"],
        "seconds": 1,
    }
    assert (check.facts["requests"], check.facts["device_read_bytes"]) == (REQUESTS, 10**9)
    assert check.facts["resident"] == {"before": 0.0, "after": 0.0}
    assert check.facts["quantiles_ns"]["0.5"] == 1050
    assert check.facts["quantiles_ns"]["1"] == 1100
    assert list((tmp_path / "files").iterdir()) == []


def test_a_good_cached_run_is_valid(world: World, ran: Make) -> None:
    world.before = world.after = 1.0
    world.device = [5, 5]
    assert ran("io-cached-random").check().reasons == []


@pytest.mark.parametrize(
    ("before", "after", "device", "says"),
    [
        (0.5, 0.0, 10**9, "50.0 % of the test file was in the page cache before the reads"),
        (0.0, 0.5, 10**9, "page cache after reads that are said to be direct"),  # case 30: direct that is not
        (0.0, 0.0, 4096, f"4096 bytes were read on a device, {REQUESTS * 4096} bytes by the test"),
    ],
)
def test_direct_that_is_not_direct_has_no_number(
    world: World, ran: Make, before: float, after: float, device: int, says: str
) -> None:
    world.before, world.after, world.device = before, after, [0, device]
    (reason,) = ran("io-direct-random").check().reasons
    assert says in reason


def test_a_kernel_that_does_not_count_proves_nothing(world: World, ran: Make) -> None:
    world.device = [None, None]
    (reason,) = ran("io-direct-random").check().reasons
    assert "does not count" in reason


@pytest.mark.parametrize(
    ("before", "after", "device", "says"),
    [
        (0.9, 1.0, 0, "in the page cache before the reads, cached needs 99 %"),
        (1.0, 0.9, 0, "in the page cache after the reads, cached needs 99 %"),
        (1.0, 1.0, 10**6, "1000000 bytes came from the device"),
    ],
)
def test_cached_that_is_not_cached_has_no_number(
    world: World, ran: Make, before: float, after: float, device: int, says: str
) -> None:
    world.before, world.after, world.device = before, after, [0, device]
    (reason,) = ran("io-cached-random").check().reasons
    assert says in reason


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ([tool.Said(2, "", "no space"), tool.Said(0, SINGLE_WHOLE, "")], "ended with status 2: no space"),
        ([tool.Said(0, RATES_WHOLE, ""), tool.Said(0, SINGLE_WHOLE, "odd")], "complained: odd"),
    ],
)
def test_a_tool_that_failed_has_no_number(
    world: World, ran: Make, outputs: list[tool.Said], says: str
) -> None:
    world.outputs = outputs
    task = ran("io-direct-random")
    assert task.samples() == []
    assert any(says in reason for reason in task.check().reasons)


def test_a_bandwidth_above_memory_has_no_number(world: World, ran: Make) -> None:
    # 262 GB/s at 30 GB/s of memory
    world.device = [0, 10**12]
    (reason,) = ran("io-direct-sequential").check().reasons
    assert "above the memory's own bandwidth" in reason


@pytest.mark.parametrize(
    ("single", "says"),
    [
        ("1 0 9 9 0 0 0 0 1 9\n" + SINGLE + "101 105050 9 9 0 1 1100 1 102 200000\n", "took 0 ns"),
        ("1 9 9 9 9 9 9 0 1 9\n1 9 9 9 9 9 9 0 2 9\n", "1 requests are too few"),
    ],
)
def test_request_times_that_cannot_be(world: World, ran: Make, single: str, says: str) -> None:
    world.outputs[1] = tool.Said(0, single, "")
    (reason,) = ran("io-direct-random").check().reasons
    assert says in reason


def test_requests_that_were_not_made_are_missed(world: World, ran: Make) -> None:
    world.outputs = [tool.Said(0, LATENCIES, "")]
    assert ran("io-latency", requests=25).check().reasons == ["ioping timed 5 requests fewer than asked for"]


def test_software_names_no_path_of_the_run(ran: Make, tmp_path: Path) -> None:
    told = ran("io-direct-random").software()
    assert str(tmp_path) not in json.dumps(told)
    assert told["commands"][0][-1] == "<file>"
