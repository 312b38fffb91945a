"""What an adapter supplies: a set-up (``set_up(request) -> Task`` in its module), one step, facts."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple


class Check(NamedTuple):
    """Whether the run did the work it was asked for; ``reasons`` is empty exactly when it did."""

    reasons: List[str]
    facts: Dict[str, Any]


class Task:
    """A workload that is set up: the loop asks for epochs of steps and times each; an empty one by default.

    ``timed`` False: a wrapped program measures itself; its steps are run, and ``samples`` gives its numbers.
    """

    epochs: int = 0
    timed: bool = True

    def steps(self, epoch: int) -> Iterator[None]:
        """Yield once after each finished step of an epoch; work that is not a step belongs elsewhere."""
        return iter(())

    def end_epoch(self, epoch: int) -> None:
        """Do what must not be timed, e.g. read the losses."""

    def samples(self) -> List[Dict[str, Any]]:
        """Return the numbers of a program that measures itself: metric, phase, epoch, index, value, unit."""
        return []

    def check(self) -> Check:
        """Return the evidence that the run is valid."""
        return Check([], {})

    def software(self) -> Dict[str, Any]:
        """Return versions, builds, kernels chosen and pools read back; nothing that differs by run or by path."""
        return {}

    def libraries(self) -> List[str]:
        """Return further shared objects, used by child processes rather than by this one."""
        return []
