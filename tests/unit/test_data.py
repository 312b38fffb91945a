"""Data sets: generated ones are the same bytes everywhere, a user's folder is verified before it is believed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tare import data, data_generator
from tare.workloads.formats import FORMATS, DatasetFormat, cifar10, mnist

#: sha256 over all files of a small set; a change of the recipe must change GENERATOR, then these
PINNED = {
    "mnist": "1232478f737bd7b3833803306765c44b5b6cac61caa08eb20ff8bf0d49ebf462",
    "cifar10": "9d198f679fbb596d40dd0511fc904f827438c8bdafaeff550508fd997c61dcbf",
}
SMALL = {"mnist": mnist(50), "cifar10": cifar10(50)}


@pytest.fixture(params=sorted(SMALL))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(name: str, target: Path, folder: Path | None = None) -> dict[str, object]:
    return data.prepare(name, target, folder, SMALL[name])


def original(name: str, folder: Path) -> Path:
    """A folder with original files, as a user would have it."""
    made = folder / "made"
    make(name, made)
    shutil.copytree(made / data.FILES, folder / "original")
    return folder / "original"


def test_formats_have_the_sizes_of_the_originals() -> None:
    assert [(file.name, file.bytes) for file in FORMATS["mnist"].files] == [
        ("train-images-idx3-ubyte", 47_040_016),
        ("train-labels-idx1-ubyte", 60_008),
    ]
    assert [(file.name, file.bytes) for file in FORMATS["cifar10"].files] == [
        (f"data_batch_{number}.bin", 30_730_000) for number in range(1, 6)
    ]
    assert FORMATS["mnist"].files[0].header == bytes.fromhex("00000803 0000ea60 0000001c 0000001c")
    assert FORMATS["mnist"].files[1].header == bytes.fromhex("00000801 0000ea60")
    with pytest.raises(ValueError, match="five files"):
        cifar10(7)


def test_generated_bytes_are_pinned(name: str, tmp_path: Path) -> None:
    facts = make(name, tmp_path)
    assert (facts["status"], facts["source"], facts["samples"]) == ("ok", "generated", 50)
    assert facts["generator"] == data_generator.GENERATOR
    assert facts["sha256"] == PINNED[name]


def test_facts_describe_the_files(name: str, tmp_path: Path) -> None:
    facts = make(name, tmp_path)
    assert json.loads((tmp_path / "dataset.json").read_text()) == facts
    assert {path.name for path in tmp_path.iterdir()} == {"dataset.json", "files"}
    files = [tmp_path / str(entry["path"]) for entry in facts["files"]]  # type: ignore[attr-defined]
    assert sorted(files) == sorted((tmp_path / "files").iterdir())
    for path, entry in zip(files, facts["files"], strict=True):  # type: ignore[call-overload]
        assert path.stat().st_size == entry["bytes"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
        assert data.not_sparse(path)


def test_more_samples_only_append(tmp_path: Path) -> None:
    data.prepare("mnist", tmp_path / "few", None, mnist(50))
    data.prepare("mnist", tmp_path / "more", None, mnist(80))
    few, more = (
        (tmp_path / size / "files/train-images-idx3-ubyte").read_bytes()[16:] for size in ("few", "more")
    )
    assert more.startswith(few)


def test_generated_classes_can_be_told_apart(name: str) -> None:
    """The nearest class picture names the label: there is structure to learn; and noise: no two samples are equal."""
    form: DatasetFormat = mnist(500) if name == "mnist" else cifar10(500)
    labels = data_generator.sample_labels(form)
    assert set(labels.tolist()) == set(range(10))
    templates = data_generator.class_templates(form).reshape(10, -1).astype(float)
    raw = b"".join(
        b"".join(chunks) for file, chunks in data_generator.contents(form) if file.record_bytes > 1
    )
    if name == "mnist":
        images = np.frombuffer(raw[16:], np.uint8).reshape(500, -1)
    else:
        images = np.frombuffer(raw, np.uint8).reshape(500, -1)[:, 1:]
        assert (np.frombuffer(raw, np.uint8).reshape(500, -1)[:, 0] == labels).all()
    distances = ((images[:, None, :].astype(float) - templates[None]) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == labels).all()
    assert len({bytes(image) for image in images}) == 500


def test_a_users_folder_is_copied(name: str, tmp_path: Path) -> None:
    source = original(name, tmp_path)
    facts = make(name, tmp_path / "target", source)
    assert (facts["status"], facts["source"], facts["generator"]) == ("ok", "folder", None)
    assert facts["sha256"] == PINNED[name]
    for path in source.iterdir():
        copy = tmp_path / "target/files" / path.name
        assert copy.read_bytes() == path.read_bytes()
        assert copy.stat().st_ino != path.stat().st_ino


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _magic(path: Path) -> None:
    path.write_bytes(struct.pack(">i", 2052) + path.read_bytes()[4:])


def _count(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4] + struct.pack(">i", 49) + path.read_bytes()[8:])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _label(offset: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[offset] = 10
        path.write_bytes(bytes(content))

    return change


def _pack(path: Path) -> None:
    path.rename(path.with_name(path.name + ".gz"))


IMAGES, LABELS, BATCH = "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "data_batch_3.bin"


@pytest.mark.parametrize(
    ("name", "file", "harm", "says"),
    [
        ("mnist", IMAGES, _append, "39217 bytes, expected 39216 (50 records)"),
        ("mnist", IMAGES, _cut, "39215 bytes, expected 39216"),
        ("mnist", IMAGES, _magic, "starts with bytes 00000804"),
        ("mnist", LABELS, _magic, "starts with bytes 0000080400000032, expected 0000080100000032"),
        ("mnist", LABELS, _count, "starts with bytes 0000080100000031"),
        ("mnist", LABELS, _empty, "starts with bytes , expected"),
        ("mnist", LABELS, _label(8 + 3), "record 3 has label 10, allowed: 0 … 9"),
        (
            "mnist",
            LABELS,
            Path.unlink,
            "not found; the folder must hold train-images-idx3-ubyte, train-labels",
        ),
        ("mnist", IMAGES, _pack, "train-images-idx3-ubyte.gz is there: unpack it"),
        ("cifar10", BATCH, _append, "30731 bytes, expected 30730 (10 records)"),
        ("cifar10", BATCH, _empty, "0 bytes, expected 30730"),
        ("cifar10", BATCH, _label(3073 * 4), "record 4 has label 10, allowed: 0 … 9"),
        ("cifar10", BATCH, Path.unlink, "not found"),
    ],
)
def test_a_bad_folder_is_refused_with_file_expectation_and_fix(
    tmp_path: Path, name: str, file: str, harm: Callable[[Path], None], says: str
) -> None:
    source = original(name, tmp_path)
    harm(source / file)
    facts = make(name, tmp_path / "target", source)
    assert (facts["status"], facts["files"], facts["sha256"]) == ("failed", [], None)
    (reason,) = facts["reasons"]  # type: ignore[misc]
    assert str(source / file) in reason
    assert says in reason
    assert json.loads((tmp_path / "target/dataset.json").read_text()) == facts
    assert list((tmp_path / "target/files").iterdir()) == []


def test_a_folder_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    facts = make(name, tmp_path / "target", tmp_path / "absent")
    assert facts["status"] == "failed"
    assert "not found" in str(facts["reasons"])


def test_what_was_there_before_is_replaced(name: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    make(name, target)
    (target / "files/old").write_text("left over")
    assert make(name, target, tmp_path / "absent")["status"] == "failed"
    assert make(name, target)["status"] == "ok"
    assert not (target / "files/old").exists()


Usage = namedtuple("Usage", "total used free")


def test_a_full_disk_is_noticed_before_writing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(file.bytes for file in SMALL[name].files)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, needed + data.RESERVE - 1))
    facts = make(name, tmp_path)
    assert facts["status"] == "failed"
    assert f"the data set needs {needed} and" in str(facts["reasons"])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, needed + data.RESERVE))
    assert make(name, tmp_path)["status"] == "ok"


def test_sparse_files_are_told(tmp_path: Path) -> None:
    hole, solid = tmp_path / "hole", tmp_path / "solid"
    with hole.open("wb") as file:
        file.truncate(1 << 20)
    with solid.open("wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    assert not data.not_sparse(hole)
    assert data.not_sparse(solid)


def test_file_system_of_a_path() -> None:
    proc = data.file_system(Path("/proc/self"))
    assert proc is not None
    assert proc.type == "proc"
