"""The one loop, with a clock that is a list: what is inside a sample and what is not."""

from __future__ import annotations

from collections.abc import Iterator

from tare.worker.counters import Usage
from tare.worker.loop import Epoch, measure, samples
from tare.worker.task import Task


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now


class Ticking(Task):
    """Steps of known length; everything around them takes long."""

    epochs = 2
    lengths = ((50, 7, 8), (5, 6))

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ended: list[int] = []

    def steps(self, epoch: int) -> Iterator[None]:
        self.clock.now += 3  # fetching the first batch is part of the first step
        for length in self.lengths[epoch]:
            self.clock.now += length
            yield
        self.clock.now += 2  # the end of the data is noticed: part of the epoch, of no step

    def end_epoch(self, epoch: int) -> None:
        self.clock.now += 10_000
        self.ended.append(epoch)


def test_steps_and_epochs_are_timed_and_nothing_between() -> None:
    clock = Clock()
    reads = iter([Usage(100, 1), Usage(350, 4), Usage(1_000, 4), Usage(1_000, 4)])

    def used() -> Usage:
        clock.now += 100_000
        return next(reads)

    task = Ticking(clock)
    assert measure(task, clock, used) == [
        Epoch([53, 7, 8], 70, 250, 3),
        Epoch([8, 6], 16, 0, 0),
    ]
    assert task.ended == [0, 1]


def test_unknown_device_reads_stay_unknown() -> None:
    clock = Clock()
    assert [epoch.device_read_bytes for epoch in measure(Ticking(clock), clock, lambda: Usage(None, 0))] == [
        None,
        None,
    ]


def test_an_empty_task_has_no_epoch_and_no_sample() -> None:
    assert measure(Task()) == []
    assert list(samples([])) == []


def test_samples_name_phase_epoch_and_index() -> None:
    events = list(samples([Epoch([5], 6, 70, 8), Epoch([3, 4], 9, None, 0)]))
    assert events == [
        {"metric": "step_seconds", "phase": "first", "epoch": 0, "index": 0, "ns": 5},
        {
            "metric": "epoch_seconds",
            "phase": "first",
            "epoch": 0,
            "index": 0,
            "ns": 6,
            "device_read_bytes": 70,
            "major_faults": 8,
        },
        {"metric": "step_seconds", "phase": "steady", "epoch": 1, "index": 0, "ns": 3},
        {"metric": "step_seconds", "phase": "steady", "epoch": 1, "index": 1, "ns": 4},
        {
            "metric": "epoch_seconds",
            "phase": "steady",
            "epoch": 1,
            "index": 0,
            "ns": 9,
            "device_read_bytes": None,
            "major_faults": 0,
        },
    ]
