"""The one loop: epochs of steps, a clock read after each. It is the same for every framework.

A sample runs from the end of the step before (for the first: from the start of its epoch) to the end of its own:
fetching the data is part of it. Reading the counters and the losses falls between epochs, outside every sample.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from tare.worker.counters import Usage, increase, usage
from tare.worker.task import Task

Clock = Callable[[], int]


class Epoch(NamedTuple):
    """The times of one epoch, in ns, and what it made the kernel fetch."""

    steps_ns: List[int]
    epoch_ns: int
    device_read_bytes: Optional[int]
    major_faults: int


def measure(task: Task, clock: Clock = time.monotonic_ns, used: Callable[[], Usage] = usage) -> List[Epoch]:
    """Run all epochs of ``task`` and return their times; ``clock`` gives ns and never goes back."""
    return [_epoch(task, number, clock, used) for number in range(task.epochs)]


def _epoch(task: Task, number: int, clock: Clock, used: Callable[[], Usage]) -> Epoch:
    durations: List[int] = []
    append = durations.append
    before = used()
    begun = last = clock()
    for _ in task.steps(number):
        now = clock()
        append(now - last)
        last = now
    ended = clock()
    after = used()
    task.end_epoch(number)
    return Epoch(
        durations,
        ended - begun,
        increase(before.device_read_bytes, after.device_read_bytes),
        after.major_faults - before.major_faults,
    )


def samples(epochs: List[Epoch]) -> Iterator[Dict[str, Any]]:
    """Yield the ``sample`` events of timed epochs; epoch 0 warms up and is the phase ``first``."""
    for number, epoch in enumerate(epochs):
        phase = "steady" if number else "first"
        for index, duration in enumerate(epoch.steps_ns):
            yield {"metric": "step_seconds", "phase": phase, "epoch": number, "index": index, "ns": duration}
        yield {
            "metric": "epoch_seconds",
            "phase": phase,
            "epoch": number,
            "index": 0,
            "ns": epoch.epoch_ns,
            "device_read_bytes": epoch.device_read_bytes,
            "major_faults": epoch.major_faults,
        }
