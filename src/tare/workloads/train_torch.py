"""Training of fcn5 and alexnet with PyTorch on the CPU: the training loop minus everything else."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from tare.worker.cpus import effective_cpus
from tare.worker.process_facts import shared_memory
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads.dataset_folder import DatasetFolder, open_dataset
from tare.workloads.evidence import training_reasons
from tare.workloads.loader_limits import check_workers, loader_failure
from tare.workloads.torch_networks import NETWORKS, build

#: seconds after which a loader process that delivers nothing counts as hanging
LOADER_TIMEOUT = 60


class Records(Dataset[Tuple[torch.Tensor, torch.Tensor]]):  # type: ignore[misc]
    """A data set whose batches are read from its files at each access."""

    def __init__(self, folder: DatasetFolder) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return self.folder.samples

    def __getitems__(self, samples: Sequence[int]) -> Tuple[torch.Tensor, torch.Tensor]:
        """Return images (batch, channels, rows, columns; float32 in -1 … 1) and labels (batch; int64)."""
        images = bytearray(len(samples) * self.folder.format.image_bytes)
        labels = bytearray(len(samples))
        self.folder.read_into(samples, images, labels)
        pixels = torch.frombuffer(images, dtype=torch.uint8).reshape(len(samples), *self.folder.format.shape)
        return pixels.float().div_(127.5).sub_(1), torch.frombuffer(labels, dtype=torch.uint8).long()


class Training(Task):
    """A network, its optimiser and its loader; one step is fetch, forward, backward, update."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.network = request.workload.rsplit("-", 1)[1]
        facts = NETWORKS[self.network]
        self.epochs, self.batch = int(request.factors["epochs"]), int(request.factors["batch"])
        self.folder = open_dataset(request.data, facts.dataset, int(request.factors["samples"]))
        if self.batch > self.folder.samples:
            raise ValueError(
                "batch: %d is more than samples=%d; raise samples" % (self.batch, self.folder.samples)
            )
        if self.epochs * (self.folder.samples // self.batch) < 2:
            raise ValueError(
                "epochs: one step in all cannot show that the loss falls; raise epochs or samples"
            )
        _set_threads(request.threads)
        # Free on the CPU for these layers; filling unused memory would not be.
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.manual_seed(request.seed)
        self.model = build(self.network)
        self.loss = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=facts.learning_rate, momentum=0.9)
        self.loader = self._loader(int(request.factors["workers"]))
        self.samples_seen = 0
        self.losses: List[float] = []
        self._pending: List[torch.Tensor] = []

    def _loader(self, workers: int) -> "DataLoader[Tuple[torch.Tensor, torch.Tensor]]":
        batch_bytes = self.batch * (4 * self.folder.format.image_bytes + 8)
        if workers:
            check_workers(workers, effective_cpus(), shared_memory()["free_bytes"], batch_bytes)
        return DataLoader(
            Records(self.folder),
            batch_size=self.batch,
            shuffle=True,
            generator=torch.Generator().manual_seed(self.request.seed),
            num_workers=workers,
            collate_fn=_as_read,
            drop_last=True,  # every step is the same work
            timeout=LOADER_TIMEOUT if workers else 0,
        )

    def steps(self, epoch: int) -> Iterator[None]:
        """Train one epoch, a step at a time."""
        try:
            for images, labels in self.loader:
                self.optimizer.zero_grad()
                loss = self.loss(self.model(images), labels)
                loss.backward()
                self.optimizer.step()
                self._pending.append(loss.detach())
                self.samples_seen += len(labels)
                yield
        except RuntimeError as error:
            failure = loader_failure(error)
            if failure is None:
                raise
            raise failure from error

    def end_epoch(self, epoch: int) -> None:
        """Read the losses of the epoch: on the CPU no synchronisation, but still no part of a step."""
        self.losses += [loss.item() for loss in self._pending]
        self._pending.clear()

    def check(self) -> Check:
        """Return whether all samples were seen, the losses are finite and the last epoch's mean loss is lower."""
        per_epoch = self.folder.samples // self.batch
        expected = per_epoch * self.batch * self.epochs
        return Check(
            training_reasons(self.losses, per_epoch, self.epochs, self.samples_seen, expected),
            {
                "losses": self.losses,
                "loss_hex": [loss.hex() for loss in self.losses],
                "parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
                "samples_seen": self.samples_seen,
                "samples_expected": expected,
                "data_sha256": self.folder.sha256,
                "data_source": self.folder.source,
                "bytes_expected": per_epoch * self.batch * self.folder.format.sample_bytes,
            },
        )

    def software(self) -> Dict[str, Any]:
        """Return PyTorch's build, kernels and pools as read back."""
        return {
            "torch": torch.__version__,
            "config": torch.__config__.show(),
            "parallel": torch.__config__.parallel_info(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "mkl": torch.backends.mkl.is_available(),
            "onednn": torch.backends.mkldnn.is_available(),
            "numpy": numpy.__version__,
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }


def set_up(request: Request) -> Training:
    """Return the training that ``request`` names, its data files open but unread."""
    return Training(request)


def _as_read(batch: Any) -> Any:
    return batch


def _set_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    with contextlib.suppress(RuntimeError):  # may be set only once in a process; it is read back below
        torch.set_num_interop_threads(1)
    found = (torch.get_num_threads(), torch.get_num_interop_threads())
    if found != (threads, 1):
        raise RuntimeError(
            "thread pools: asked for %d and 1 (interop), PyTorch has %d and %d" % (threads, *found)
        )
