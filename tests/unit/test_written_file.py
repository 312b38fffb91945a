"""A test file: random, written, on a disk with room for it; everything else is refused with what to do."""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

import pytest

from tare.workloads import written_file
from tare.workloads.written_file import (
    MIB,
    WrittenFileError,
    create,
    file_system_magic,
    require_disk,
    sparse_reasons,
)

EXT4 = 0xEF53


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of these tests may be memory; what refuses memory is tested with the magic given."""
    monkeypatch.setattr(written_file, "file_system_magic", lambda _: EXT4)


def test_content_is_random_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "data"
    create(str(path), 17 * MIB + 3)  # more than one block, and a rest
    data = path.read_bytes()
    assert len(data) == 17 * MIB + 3
    assert len(zlib.compress(data, 1)) > 0.99 * len(data)
    assert data[: 1 * MIB] != data[16 * MIB : 17 * MIB]


def test_it_is_synced_after_the_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    create(str(tmp_path / "data"), MIB)
    assert sizes == [MIB]


@pytest.mark.parametrize(
    ("magic", "name"), [(0x01021994, "tmpfs"), (0x858458F6, "ramfs"), (0x958458F6, "hugetlbfs")]
)
def test_memory_is_no_disk(tmp_path: Path, magic: int, name: str) -> None:
    with pytest.raises(
        WrittenFileError, match=f"lies on {name}, which is memory, no disk; allowed: .*: put it on"
    ):
        require_disk(str(tmp_path), 1, magic)


def test_a_disk_is_a_disk(tmp_path: Path) -> None:
    require_disk(str(tmp_path), 1, EXT4)
    require_disk(str(tmp_path), 1)


def test_too_little_room_names_what_is_needed(tmp_path: Path) -> None:
    size = os.statvfs(tmp_path).f_frsize * os.statvfs(tmp_path).f_blocks
    with pytest.raises(
        WrittenFileError, match=rf"MiB free, a test file of {size // MIB} MiB needs \d+ MiB; free"
    ):
        create(str(tmp_path / "data"), size)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(WrittenFileError, match=re.escape(f"{tmp_path} cannot be written by this run")):
        create(str(tmp_path / "data"), 1)


def test_sparse_and_changed_files_are_refused(tmp_path: Path) -> None:
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(4 * MIB)
    (reason,) = sparse_reasons(str(hole), 4 * MIB)
    assert "has only 0 of 4194304 bytes on the device (sparse or compressed)" in reason
    (reason,) = sparse_reasons(str(hole), MIB)
    assert "has 4194304 bytes, not 1048576: it was changed" in reason


@pytest.mark.parametrize(("blocks", "faults"), [(2048, 0), (2056, 0), (2047, 1)])
def test_blocks_cover_the_size(tmp_path: Path, blocks: int, faults: int) -> None:
    path = tmp_path / "data"
    create(str(path), MIB)
    assert len(sparse_reasons(str(path), MIB, blocks)) == faults


def test_written_file_is_not_sparse(tmp_path: Path) -> None:
    create(str(tmp_path / "data"), MIB)
    assert sparse_reasons(str(tmp_path / "data"), MIB) == []


def test_it_can_be_brought_into_the_page_cache(tmp_path: Path) -> None:
    create(str(tmp_path / "data"), MIB)
    assert written_file.cache_in(str(tmp_path / "data")) == 1.0


def test_the_kernel_tells_known_file_systems() -> None:
    assert file_system_magic("/proc") == 0x9FA0
    assert file_system_magic("/sys") == 0x62656572


def test_an_absent_path_has_no_file_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as error:
        file_system_magic(str(tmp_path / "absent"))
    assert error.value.filename == str(tmp_path / "absent")
