"""copy-up: on the image's own file where that can be written, else on a plain copy of the same bytes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapter_requests import adapter_request
from tare.worker import page_cache
from tare.worker.request import Request
from tare.workloads import copy_up, written_file
from tare.workloads.copy_up import CopyUp, CopyUpError

SIZE = 3 << 20
DOCKERFILE = Path(__file__).resolve().parents[2] / "containers/hpc/Dockerfile"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_up, "FILE_BYTES", SIZE)
    monkeypatch.setattr(written_file, "file_system_magic", lambda _: 0xEF53)


def request(output: str, files: Path) -> Request:
    return adapter_request("copy-up", output, files=str(files))


def ticking() -> Callable[[], int]:
    """A clock whose first write takes 1 ms and each later one 1 µs."""

    def ticks() -> Iterator[int]:
        yield from (0, 10**6)
        now = 10**6
        while True:
            yield now
            now += 1000

    values = ticks()
    return lambda: next(values)


def ran(task: CopyUp) -> CopyUp:
    for _ in task.steps(0):
        pass
    return task


def test_the_images_own_file_is_written_where_it_can_be(tmp_path: Path) -> None:
    image = tmp_path / "copy-up.data"
    image.write_bytes(copy_up.content())
    task = ran(CopyUp(request("/tare", tmp_path), str(image), ticking()))
    assert image.read_bytes()[:4096] == task.buffer
    check = task.check()
    assert check.reasons == []
    assert check.facts["place"] == "file of the image"
    assert check.facts["cached"] == 1.0
    assert check.facts["work"] == {
        "file_bytes": SIZE,
        "write_bytes": 4096,
        "file_sha256": hashlib.sha256(copy_up.content()).hexdigest(),
    }
    assert image.exists()


def test_first_and_next_writes_are_told_apart(tmp_path: Path) -> None:
    found = ran(CopyUp(request(str(tmp_path), tmp_path), str(tmp_path / "absent"), ticking())).samples()
    assert (found[0]["metric"], found[0]["phase"], found[0]["value"]) == (
        "first_write_seconds",
        "first",
        1e-3,
    )
    assert len(found) == 1 + copy_up.NEXT_WRITES
    assert {(s["metric"], s["phase"], round(s["value"], 12)) for s in found[1:]} == {
        ("next_write_seconds", "steady", 1e-6)
    }
    assert [(s["metric"], s["phase"]) for s in found[:2]] == [
        (metric.name, metric.phase) for metric in copy_up.WORKLOADS[0].metrics
    ]


@pytest.mark.parametrize("readable", [False, True])
def test_elsewhere_a_plain_copy_of_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    image = tmp_path / "copy-up.data"
    if readable:
        image.write_bytes(copy_up.content())
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: path != str(image) and real(path, mode))
    files = tmp_path / "files"
    files.mkdir()
    task = ran(CopyUp(request("/tare" if readable else str(tmp_path), files), str(image), ticking()))
    assert Path(task.path) == files / "copy-up.data"
    check = task.check()
    assert (check.reasons, check.facts["place"]) == ([], "plain copy")
    assert check.facts["work"]["file_sha256"] == hashlib.sha256(copy_up.content()).hexdigest()
    assert list(files.iterdir()) == []
    assert not readable or image.read_bytes() == copy_up.content()


def test_an_image_without_the_file_is_refused(tmp_path: Path) -> None:
    """Never a silent plain copy where there is a layer."""
    absent = tmp_path / "absent"
    with pytest.raises(CopyUpError, match=re.escape(f"the image has no {absent}; build the image from")):
        CopyUp(request("/tare", tmp_path), str(absent))


def test_residency_that_cannot_be_known_is_unverified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "mincore_tells", lambda _: False)
    check = ran(CopyUp(request(str(tmp_path), tmp_path), str(tmp_path / "absent"))).check()
    assert (check.reasons, check.facts["cached"]) == ([], "unverified")


def test_a_file_that_was_not_cached_has_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "resident_share", lambda _: 0.5)
    (reason,) = ran(CopyUp(request(str(tmp_path), tmp_path), str(tmp_path / "absent"))).check().reasons
    assert "50.0 % of the test file was in the page cache before" in reason


def test_the_image_is_given_exactly_this_file() -> None:
    text = DOCKERFILE.read_text()
    made = f'random.Random({copy_up.SEED}).randbytes(64 << 20))" > {copy_up.IMAGE_FILE}'
    assert made in text
    assert f"chmod 666 {copy_up.IMAGE_FILE}" in text


def test_content_is_the_same_wherever_it_is_made() -> None:
    assert hashlib.sha256(copy_up.content()[:1024]).hexdigest()[:16] == "2e7a21499b68f1ff"
