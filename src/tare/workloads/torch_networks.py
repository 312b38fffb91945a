"""The networks of studies X and S for PyTorch; the number of trainable parameters proves the definition."""

from __future__ import annotations

from typing import Dict, List, NamedTuple

from torch import nn


class Network(NamedTuple):
    """A network's facts: what it is trained on and how; ``parameters`` is asserted at set-up."""

    dataset: str
    parameters: int
    learning_rate: float


NETWORKS: Dict[str, Network] = {
    "fcn5": Network("mnist", 14_205_962, 0.005),
    "alexnet": Network("cifar10", 85_098, 0.02),
}


def build(name: str) -> nn.Module:
    """Return the network ``name``; raises ``ValueError`` when its parameters are not the stated number."""
    model = {"fcn5": _fcn5, "alexnet": _alexnet}[name]()
    found = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    if found != NETWORKS[name].parameters:
        raise ValueError("%s has %d trainable parameters, not %d" % (name, found, NETWORKS[name].parameters))
    return model


def _fcn5() -> nn.Module:
    widths = (784, 2048, 4096, 1024, 10)
    layers: List[nn.Module] = [nn.Flatten()]
    for inputs, outputs in zip(widths, widths[1:]):
        layer = nn.Linear(inputs, outputs)
        # Glorot's initialisation, gain 4 for sigmoids (their slope at 0 is 1/4), and a small last layer, so that
        # the loss starts at ln 10 and falls from the first steps; PyTorch's default leaves the sigmoids flat.
        nn.init.xavier_uniform_(layer.weight, gain=0.1 if outputs == widths[-1] else 4.0)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Sigmoid()]
    return nn.Sequential(*layers[:-1])  # the softmax is part of the loss


def _alexnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.MaxPool2d(3, 2),
        nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(64 * 3 * 3, 10),
    )
