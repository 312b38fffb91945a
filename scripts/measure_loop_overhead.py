"""Prints what the loop itself adds to a sample: the time of an empty step, in ns, through the same loop."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from tare.worker.loop import measure
from tare.worker.task import Task


class Empty(Task):
    """Steps that do nothing."""

    epochs = 21

    def steps(self, _epoch: int) -> Iterator[None]:
        """Yield at once."""
        for _ in range(10_000):
            yield


def main() -> None:
    """Measure and print."""
    epochs = measure(Empty())[1:]
    recorded = [statistics.median(epoch.steps_ns) for epoch in epochs]
    spent = [epoch.epoch_ns / len(epoch.steps_ns) for epoch in epochs]
    start = time.perf_counter_ns()
    for _ in range(100_000):
        time.monotonic_ns()
    clock = (time.perf_counter_ns() - start) / 100_000
    print(f"recorded duration of an empty step: {statistics.median(recorded):.0f} ns (median)")
    print(f"time spent for each sample: {statistics.median(spent):.0f} ns (best epoch {min(spent):.0f} ns)")
    print(f"one clock read: {clock:.0f} ns")


if __name__ == "__main__":
    main()
