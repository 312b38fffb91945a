"""A generated stand-in for MNIST and CIFAR-10: same files, sizes and counts, classes that can be learned.

Integers and SHAKE-256 only, so that every machine makes the same bytes: a class is a coarse random picture,
a sample three parts of its class's picture and one part noise, a label a random byte scaled to the classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tare.workloads.formats import DatasetFormat, RecordFile

#: name of this recipe; change it whenever the bytes change
GENERATOR = "tare-templates-1"
#: pixels of a class picture are squares of this side, so that convolution and pooling keep what they show
SQUARE = 4
RECORDS_AT_ONCE = 5_000

Bytes = npt.NDArray[np.uint8]


def contents(form: DatasetFormat) -> Iterator[tuple[RecordFile, Iterator[bytes]]]:
    """Yield each file of ``form`` with its bytes in chunks; consume one file before asking for the next."""
    templates = class_templates(form)
    labels = sample_labels(form)
    first = 0
    for file in form.files:
        if file.record_bytes == 1:  # labels alone, in the order of the images before them
            yield file, iter([file.header, labels.tobytes()])
        else:
            yield file, _image_records(form, file, templates, labels, first)
            first += file.records


def class_templates(form: DatasetFormat) -> Bytes:
    """Return the classes' pictures (classes, channels, rows, columns)."""
    channels, rows, columns = form.shape
    coarse = _random(form, "templates", form.classes * channels * (rows // SQUARE) * (columns // SQUARE))
    shaped = coarse.reshape(form.classes, channels, rows // SQUARE, columns // SQUARE)
    return shaped.repeat(SQUARE, axis=2).repeat(SQUARE, axis=3)


def sample_labels(form: DatasetFormat) -> Bytes:
    """Return the label of each sample."""
    scaled = _random(form, "labels", form.samples).astype(np.uint16) * form.classes >> 8
    return scaled.astype(np.uint8)


def _image_records(
    form: DatasetFormat, file: RecordFile, templates: Bytes, labels: Bytes, first: int
) -> Iterator[bytes]:
    yield file.header
    with_label = file.record_bytes == form.image_bytes + 1
    for start in range(first, first + file.records, RECORDS_AT_ONCE):
        chosen = labels[start : min(start + RECORDS_AT_ONCE, first + file.records)]
        noise = _random(form, f"noise {start}", len(chosen) * form.image_bytes)
        pixels = templates[chosen].reshape(len(chosen), -1).astype(np.uint16)
        mixed = (3 * pixels + noise.reshape(len(chosen), -1) >> 2).astype(np.uint8)
        yield (np.column_stack([chosen, mixed]) if with_label else mixed).tobytes()


def _random(form: DatasetFormat, what: str, count: int) -> Bytes:
    stream = hashlib.shake_256(f"{GENERATOR} {form.name} {what}".encode())
    return np.frombuffer(stream.digest(count), dtype=np.uint8)
