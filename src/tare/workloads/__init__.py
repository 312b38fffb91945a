"""What can be run, as data: one ``Workload`` per name. Standard library only; adapters are imported by the worker.

A workload is set up, then stepped (``adapter`` module); what is known about it without running it stands here,
where the config, the measuring side and the analysis can read it.
"""

from typing import Dict, Mapping, NamedTuple, Optional, Tuple, Union

Level = Union[str, int]


class Factor(NamedTuple):
    """A setting of a workload that is varied: its default and what it may be."""

    default: Level
    #: the levels allowed, or () when any positive integer is
    allowed: Tuple[Level, ...]
    help: str


class Metric(NamedTuple):
    """One number of a run that is compared. ``cost`` False: more is better, and the cost ratio is inverted."""

    name: str
    phase: str  # startup, first, steady
    unit: str
    cost: bool
    label: str


class Workload(NamedTuple):
    """Facts of one workload; ``metrics`` are those that get a verdict, in the order of the report."""

    name: str
    title: str
    stack: str
    adapter: str
    factors: Mapping[str, Factor]
    metrics: Tuple[Metric, ...]
    dataset: Optional[str]
    expected_seconds: float
    #: kernel page cache of the data set is controlled between ``ready`` and the first step
    cached: bool


_CACHE = Factor(
    "cold",
    ("cold", "warm", "as-is"),
    "page cache of the data set before epoch 0: evicted and proved absent, read in, or as the last run left it",
)
_TRAIN_METRICS = (
    Metric("epoch_seconds", "first", "s", True, "first epoch"),
    Metric("step_seconds", "steady", "s", True, "steady training step"),
)


def _train(network: str, dataset: str, batch: int, samples: int, title: str) -> Workload:
    return Workload(
        name="train-torch-" + network,
        title=title,
        stack="torch",
        adapter="tare.workloads.train_torch",
        factors={
            "batch": Factor(batch, (), "samples in one training step"),
            "samples": Factor(samples, (), "samples in one epoch: a stated subset of the data set"),
            "epochs": Factor(3, (), "epochs in one run; the first is a metric of its own"),
            "workers": Factor(
                0, (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32), "loader processes; 0: the training process reads"
            ),
            "cache": _CACHE,
        },
        metrics=_TRAIN_METRICS,
        dataset=dataset,
        expected_seconds=6.0,
        cached=True,
    )


_HPCC_METRICS = (
    Metric("hpl_flops", "steady", "flop/s", False, "HPL"),
    Metric("dgemm_flops", "steady", "flop/s", False, "DGEMM (star)"),
    Metric("stream_triad", "steady", "B/s", False, "STREAM triad (star)"),
    Metric("fft_flops", "steady", "flop/s", False, "FFT (MPI)"),
    Metric("random_access", "steady", "update/s", False, "RandomAccess (MPI)"),
    Metric("ptrans", "steady", "B/s", False, "PTRANS"),
    Metric("latency", "steady", "s", True, "ping-pong latency"),
)

WORKLOADS: Dict[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            name="startup",
            title="empty workload: the floor under every figure",
            stack="hpc",
            adapter="tare.workloads.startup",
            factors={},
            metrics=(
                Metric("start_seconds", "startup", "s", True, "request to first instruction"),
                Metric("total_seconds", "startup", "s", True, "request to exit"),
            ),
            dataset=None,
            expected_seconds=0.5,
            cached=False,
        ),
        Workload(
            name="hpcc",
            title="HPC Challenge",
            stack="hpc",
            adapter="tare.workloads.hpcc",
            factors={
                "n": Factor(
                    "quick",
                    ("quick", "full"),
                    "HPL problem size: quick (seconds), full (70 % of memory), or a number",
                ),
            },
            metrics=_HPCC_METRICS,
            dataset=None,
            expected_seconds=6.0,
            cached=False,
        ),
        _train("fcn5", "mnist", 512, 2048, "fully connected network, 5 layers, MNIST"),
        _train("alexnet", "cifar10", 256, 2048, "AlexNet (CIFAR form), CIFAR-10"),
    )
}
