"""What training workloads share: evidence, limits of loaders, the data folder as a run sees it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tare.data import prepare
from tare.workloads import dataset_folder, formats
from tare.workloads.dataset_folder import DatasetError, open_dataset
from tare.workloads.evidence import training_reasons
from tare.workloads.loader_limits import LoaderError, check_workers, loader_failure, shm_needed


@pytest.mark.parametrize(
    ("losses", "per_epoch", "epochs", "seen", "says"),
    [
        ([3.0, 2.0, 2.5, 1.0], 2, 2, 8, None),
        ([2.0, 3.0, 2.4, 2.5], 2, 2, 8, None),
        ([3.0, 2.0], 2, 1, 8, None),
        ([3.0, 9.0, 2.0], 3, 1, 8, None),
        ([2.0, 2.0], 1, 2, 8, "does not fall: mean 2 at first, 2 at last"),
        ([1.0, 2.0], 1, 2, 8, "does not fall"),
        ([3.0, float("nan")], 1, 2, 8, "not finite"),
        ([3.0, float("inf")], 1, 2, 8, "not finite"),
        ([3.0, 2.0], 1, 2, 7, "samples seen: 7, expected 8"),
        ([3.0], 1, 2, 8, "losses: 1, expected 2"),
        ([], 1, 2, 8, "losses: 0, expected 2"),
        ([3.0], 1, 1, 8, "one step in all"),
    ],
)
def test_evidence(losses: list[float], per_epoch: int, epochs: int, seen: int, says: str | None) -> None:
    reasons = training_reasons(losses, per_epoch, epochs, seen, 8)
    assert bool(reasons) == (says is not None)
    assert says is None or any(says in reason for reason in reasons)


def test_more_loader_processes_than_cpus_are_refused() -> None:
    with pytest.raises(LoaderError, match=r"workers: 3 is more than the 2 effective CPUs.*allowed: 0 … 2"):
        check_workers(3, cpus=2, shm_free=1 << 40, batch_bytes=1)
    check_workers(2, cpus=2, shm_free=1 << 40, batch_bytes=1)


def test_shared_memory_must_hold_the_batches_in_flight_twice() -> None:
    needed = shm_needed(2, batch_bytes=1000)
    assert needed == 8000
    check_workers(2, cpus=2, shm_free=8000, batch_bytes=1000)
    for free in (7999, None):
        with pytest.raises(LoaderError, match="shm-too-small: workers=2 needs 8000 bytes"):
            check_workers(2, cpus=2, shm_free=free, batch_bytes=1000)


def chained(*texts: str) -> RuntimeError:
    """Errors, each the cause of the one before."""
    errors = [RuntimeError(text) for text in texts]
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


BUS = "DataLoader worker (pid 9) is killed by signal: Bus error. It is possible that they are out of shared memory."


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ((BUS,), "shm-too-small: a loader process died or hung (" + BUS),
        (("DataLoader worker (pid(s) 9) exited unexpectedly", BUS), "shm-too-small: "),
        (
            ("DataLoader timed out after 60 seconds",),
            "shm-too-small: a loader process died or hung (DataLoader",
        ),
        (
            (
                "DataLoader worker (pid(s) 9) exited unexpectedly",
                "DataLoader worker (pid 9) is killed by signal: Killed.",
            ),
            "a loader process died or hung (DataLoader worker (pid(s) 9) exited unexpectedly; DataLoader worker "
            "(pid 9) is killed by signal: Killed.); use workers=0",
        ),
        (("mat1 and mat2 shapes cannot be multiplied",), None),
        (("Caught ValueError in DataLoader worker process 0.",), None),
    ],
)
def test_a_loader_process_that_died_is_told_by_its_cause(texts: tuple[str, ...], says: str | None) -> None:
    failure = loader_failure(chained(*texts))
    assert (failure is None) == (says is None)
    assert says is None or str(failure).startswith(says)


def small(name: str) -> formats.DatasetFormat:
    return formats.mnist(20) if name == "mnist" else formats.cifar10(20)


@pytest.fixture(params=["mnist", "cifar10"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(dataset_folder.FORMATS, request.param, small(request.param))
    return str(request.param)


def test_samples_are_read_from_their_places(name: str, tmp_path: Path) -> None:
    form = small(name)
    facts = prepare(name, tmp_path, None, form)
    files = [(tmp_path / entry["path"]).read_bytes() for entry in facts["files"]]
    folder = open_dataset(str(tmp_path), name, 20)
    chosen = [19, 0, 7]
    images, labels = bytearray(3 * form.image_bytes), bytearray(3)
    folder.read_into(chosen, images, labels)
    for number, sample in enumerate(chosen):
        if name == "mnist":
            image, label = files[0][16 + 784 * sample :][:784], files[1][8 + sample]
        else:
            record = files[sample // 4][(sample % 4) * 3073 :][:3073]
            image, label = record[1:], record[0]
        assert images[number * form.image_bytes :][: form.image_bytes] == image
        assert labels[number] == label
    assert folder.sha256 == facts["sha256"]


def test_a_file_that_ends_early_is_an_error(name: str, tmp_path: Path) -> None:
    form = small(name)
    facts = prepare(name, tmp_path, None, form)
    folder = open_dataset(str(tmp_path), name, 20)
    for entry in facts["files"]:
        with (tmp_path / entry["path"]).open("r+b") as file:
            file.truncate(20)
    with pytest.raises(OSError, match=f"sample 19 of {name}"):
        folder.read_into([19], bytearray(form.image_bytes), bytearray(1))


def test_samples_beyond_the_data_are_refused(name: str, tmp_path: Path) -> None:
    prepare(name, tmp_path, None, small(name))
    for samples in (0, 21):
        with pytest.raises(DatasetError, match=rf"samples: {samples} is not possible; {name} has 1 … 20"):
            open_dataset(str(tmp_path), name, samples)


def test_changed_missing_and_failed_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dataset_folder.FORMATS, "mnist", small("mnist"))
    with pytest.raises(DatasetError, match="the request names no folder"):
        open_dataset(None, "mnist", 1)
    with pytest.raises(DatasetError, match=r"dataset\.json cannot be read"):
        open_dataset(str(tmp_path), "mnist", 1)
    facts = prepare("mnist", tmp_path, None, small("mnist"))
    with pytest.raises(DatasetError, match="holds data set 'mnist' with status 'ok', not cifar10"):
        open_dataset(str(tmp_path), "cifar10", 1)
    labels = tmp_path / facts["files"][1]["path"]
    labels.write_bytes(labels.read_bytes() + b"x")
    with pytest.raises(DatasetError, match=r"has 29 bytes, dataset\.json says 28"):
        open_dataset(str(tmp_path), "mnist", 1)
    labels.unlink()
    with pytest.raises(DatasetError, match="has no bytes"):
        open_dataset(str(tmp_path), "mnist", 1)
    (tmp_path / "dataset.json").write_text(
        json.dumps({**facts, "status": "failed", "reasons": ["bad magic"]})
    )
    with pytest.raises(DatasetError, match="bad magic"):
        open_dataset(str(tmp_path), "mnist", 1)
