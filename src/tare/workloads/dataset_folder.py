"""A prepared data set as a run sees it: dataset.json, files of the stated sizes, opened but not yet read.

Standard library only, for every framework. Nothing of the files is read before the first step: whether the
page cache is cold or warm is set between ``ready`` and that step.
"""

from __future__ import annotations

import json
import os
from typing import List, NamedTuple, Optional, Sequence

from tare.workloads.formats import FORMATS, DatasetFormat


class DatasetError(ValueError):
    """A data folder that cannot be trained on; the message names the file, what is expected and the fix."""


class DatasetFolder(NamedTuple):
    """Open files of a data set, in the order of its format."""

    format: DatasetFormat
    samples: int
    sha256: str  # of all files, as dataset.json states it
    source: str
    descriptors: List[int]

    def read_into(self, samples: Sequence[int], images: bytearray, labels: bytearray) -> None:
        """Read ``samples`` through the file system into two buffers of exactly their size; raises OSError."""
        size = self.format.image_bytes
        view, label_view = memoryview(images), memoryview(labels)
        for number, sample in enumerate(samples):
            place = self.format.place(sample)
            image = view[number * size : (number + 1) * size]
            got = os.preadv(self.descriptors[place.image_file], [image], place.image_offset)
            got += os.preadv(
                self.descriptors[place.label_file], [label_view[number : number + 1]], place.label_offset
            )
            if got != size + 1:
                raise OSError("sample %d of %s: %d of %d bytes" % (sample, self.format.name, got, size + 1))


def open_dataset(folder: Optional[str], name: str, samples: int) -> DatasetFolder:
    """Return data set ``name`` in ``folder`` with its files open; raises ``DatasetError``."""
    if folder is None:
        raise DatasetError(
            "data: this workload needs the data set %s, and the request names no folder" % name
        )
    facts = _facts(os.path.join(folder, "dataset.json"))
    form = FORMATS[name]
    if facts.get("dataset") != name or facts.get("status") != "ok":
        raise DatasetError(
            "%s holds data set %r with status %r, not %s; reasons: %s"
            % (folder, facts.get("dataset"), facts.get("status"), name, "; ".join(facts.get("reasons", [])))
        )
    if not 1 <= samples <= facts["samples"]:
        raise DatasetError("samples: %d is not possible; %s has 1 … %d" % (samples, name, facts["samples"]))
    paths = [os.path.join(folder, entry["path"]) for entry in facts["files"]]
    for path, entry in zip(paths, facts["files"]):
        size = os.stat(path).st_size if os.path.exists(path) else None
        if size != entry["bytes"]:
            raise DatasetError(
                "%s has %s bytes, dataset.json says %s; delete dataset.json to have the data set made again"
                % (path, "no" if size is None else size, entry["bytes"])
            )
    descriptors = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]
    return DatasetFolder(form, samples, facts["sha256"], facts["source"], descriptors)


def _facts(path: str) -> dict:  # type: ignore[type-arg]
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError) as error:
        raise DatasetError(
            "%s cannot be read (%s); have the data set prepared again" % (path, error)
        ) from None
    if not isinstance(facts, dict):
        raise DatasetError("%s is no JSON object; have the data set prepared again" % path)
    return facts
