"""The original file formats of MNIST (idx) and CIFAR-10 (binary batches), as data: sizes, magic numbers, offsets.

Sources: the format sections of the MNIST database page and of the CIFAR-10 page ("binary version").
Both the pipeline (which verifies or makes the files) and the workloads (which read them) use these.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Tuple


class RecordFile(NamedTuple):
    """A file of ``records`` records of equal size behind a fixed header."""

    name: str
    header: bytes
    records: int
    record_bytes: int

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return len(self.header) + self.records * self.record_bytes


class Place(NamedTuple):
    """Where one sample lies: file numbers and offsets of its image and its label (one byte)."""

    image_file: int
    image_offset: int
    label_file: int
    label_offset: int


class DatasetFormat(NamedTuple):
    """A data set: ``samples`` images of ``shape`` (channels, rows, columns), one byte a pixel, ``classes`` labels."""

    name: str
    samples: int
    shape: Tuple[int, int, int]
    classes: int
    files: Tuple[RecordFile, ...]

    @property
    def image_bytes(self) -> int:
        """Size of one image."""
        channels, rows, columns = self.shape
        return channels * rows * columns

    @property
    def sample_bytes(self) -> int:
        """Bytes read for one sample: its image and its label."""
        return self.image_bytes + 1

    def place(self, sample: int) -> Place:
        """Return where sample 0 … samples - 1 lies."""
        if self.name == "mnist":
            images, labels = self.files
            return Place(0, len(images.header) + sample * images.record_bytes, 1, len(labels.header) + sample)
        number, record = divmod(sample, self.files[0].records)
        offset = record * self.files[0].record_bytes
        return Place(number, offset + 1, number, offset)


def mnist(samples: int = 60_000) -> DatasetFormat:
    """Return the training set of MNIST: a file of images and one of labels, big-endian headers."""
    images = RecordFile(
        "train-images-idx3-ubyte", struct.pack(">4i", 2051, samples, 28, 28), samples, 28 * 28
    )
    labels = RecordFile("train-labels-idx1-ubyte", struct.pack(">2i", 2049, samples), samples, 1)
    return DatasetFormat("mnist", samples, (1, 28, 28), 10, (images, labels))


def cifar10(samples: int = 50_000) -> DatasetFormat:
    """Return the training set of CIFAR-10: five files of records, each a label and a 3×32×32 image."""
    if samples % 5:
        raise ValueError("cifar10: %d samples cannot be spread over five files" % samples)
    names = ["data_batch_%d.bin" % number for number in range(1, 6)]
    files = tuple(RecordFile(name, b"", samples // 5, 1 + 3 * 32 * 32) for name in names)
    return DatasetFormat("cifar10", samples, (3, 32, 32), 10, files)


FORMATS = {"mnist": mnist(), "cifar10": cifar10()}
