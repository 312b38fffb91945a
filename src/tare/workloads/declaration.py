"""What a workload declares about itself: facts that config, measuring side and analysis read without running it.

Standard library only. A family of workloads is one module of this package with ``WORKLOADS``, named in
``registry.FAMILIES``; it imports no framework.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Tuple, Union

Level = Union[str, int]

#: what of the machine a workload looks at, in the order of the report
LAYERS = (
    "start-up",
    "compute",
    "memory",
    "system calls",
    "files",
    "network",
    "training",
    "gpu",
)
LOCATION_LEVELS = ("bind", "layer", "volume")


class Factor(NamedTuple):
    """A setting of a workload that is varied: its default and what it may be.

    ``allowed``: the levels, or () when any integer ≥ 1 is. ``numbers``: integers ≥ 1 are allowed beside them.
    """

    default: Level
    allowed: Tuple[Level, ...]
    help: str
    numbers: bool = False


class Metric(NamedTuple):
    """One number of a run that is compared. ``cost`` False: more is better, and the cost ratio is inverted.

    The run's value is the median of its samples. ``optional``: some runtimes have no such number by their nature;
    a pair with one of them is then no comparison, rather than one that failed.
    """

    name: str
    phase: str  # startup, first, steady
    unit: str
    cost: bool
    label: str
    optional: bool = False


class Workload(NamedTuple):
    """Facts of one workload; ``metrics`` are those that get a verdict, in the order of the report."""

    name: str
    title: str
    stack: str
    adapter: str  # module with ``set_up(request) -> Task``
    factors: Mapping[str, Factor]
    metrics: Tuple[Metric, ...]
    layer: str  # one of LAYERS
    expected_seconds: float
    #: data set that is read, mounted read-only
    dataset: Optional[str] = None
    #: kernel page cache of the data set is controlled between ``ready`` and the first step
    cached: bool = False
    #: program of ``src/tare/native`` that is put into the run's folder
    native: Optional[str] = None
    #: a second instance of the same runtime serves the run (PROTOCOL.md, `peer`)
    peer: bool = False
    #: needs an NVIDIA GPU, which containers are handed
    gpu: bool = False


#: where the test files of a file workload lie; `location` of every one of them
LOCATION = Factor(
    "bind",
    LOCATION_LEVELS,
    "where the files lie: bind (a mounted folder of the machine), layer (the container's own writable layer), "
    "volume (a named volume); outside containers all three are a plain folder",
)
