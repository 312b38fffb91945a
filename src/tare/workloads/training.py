"""Declarations of the training workloads; the adapters import their framework and stand apart."""

from __future__ import annotations

from tare.workloads.declaration import Factor, Metric, Workload

_CACHE = Factor(
    "cold",
    ("cold", "warm", "as-is"),
    "page cache of the data set before epoch 0: evicted and proved absent, read in, or as the last run left it",
)
_METRICS = (
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
        metrics=_METRICS,
        layer="training",
        dataset=dataset,
        expected_seconds=6.0,
        cached=True,
    )


WORKLOADS = (
    _train("fcn5", "mnist", 512, 2048, "fully connected network, 5 layers, MNIST"),
    _train("alexnet", "cifar10", 256, 2048, "AlexNet (CIFAR form), CIFAR-10"),
)
