"""The page cache of real files: out, in, and what is never believed."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from tare import page_cache
from tare.page_cache import ColdProof, cold_proof, distrust, evict, file_system, resident_share, warm
from tare.worker import page_cache as worker_page_cache

PAGE = mmap.PAGESIZE


def written(path: Path, pages: int) -> Path:
    path.write_bytes(os.urandom(pages * PAGE))
    return path


def on_disk(path: Path) -> bool:
    return file_system(path) in page_cache.LOCAL_FILE_SYSTEMS


def test_eviction_and_warming_are_seen_by_the_kernel(tmp_path: Path) -> None:
    files = [written(tmp_path / "a", 64), written(tmp_path / "b", 32)]
    warm(files)
    assert resident_share(files) == 1.0
    result = evict(files)
    assert result.resident_before == 1.0
    if on_disk(tmp_path):
        assert (result.resident_after, result.method, result.verified, result.reason) == (
            0.0,
            "fadvise",
            True,
            "",
        )
    else:
        assert not result.verified
    assert resident_share(files) == result.resident_after
    warm(files)
    assert resident_share(files) == 1.0


def test_asking_brings_nothing_in(tmp_path: Path) -> None:
    file = written(tmp_path / "a", 64)
    after = evict([file]).resident_after
    assert [resident_share([file]) for _ in range(3)] == [after] * 3


def test_dirty_pages_are_written_back_first(tmp_path: Path) -> None:
    file = written(tmp_path / "a", 256)  # not synced by anybody
    content = file.read_bytes()
    evict([file])
    assert file.read_bytes() == content


def test_share_is_by_pages_over_all_files(tmp_path: Path) -> None:
    one, two = written(tmp_path / "a", 30), written(tmp_path / "b", 10)
    evict([one, two])
    if on_disk(tmp_path):
        warm([two])
        assert resident_share([one, two]) == 0.25


def test_files_without_a_page(tmp_path: Path) -> None:
    empty = written(tmp_path / "a", 0)
    assert resident_share([]) == 0.0
    assert resident_share([empty]) == 0.0
    assert evict([empty]).resident_after == 0.0


def test_file_that_ends_inside_a_page_counts_it(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * (PAGE + 1))
    assert worker_page_cache.resident_pages(file) == (2, 2)


def test_windows_cover_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_page_cache, "_WINDOW_BYTES", 4 * PAGE)
    file = written(tmp_path / "a", 11)
    assert worker_page_cache.resident_pages(file) == (11, 11)


def test_absent_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        evict([tmp_path / "absent"])


def test_pages_that_stay_need_drop_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 26: what cannot be dropped is said, never called cold."""
    file = written(tmp_path / "a", 16)
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    switch = tmp_path / "absent" / "drop_caches"
    result = evict([file], switch)
    assert (result.resident_after, result.method, result.verified) == (1.0, "fadvise", False)
    assert "100% of the data stayed in the page cache" in result.reason
    assert f"{switch} cannot be written (No such file or directory)" in result.reason
    switch.parent.mkdir()
    switch.write_text("")
    result = evict([file], switch)
    assert switch.read_text() == "1\n"
    assert (result.method, result.verified) == ("fadvise+drop_caches", False)  # a file that drops nothing
    assert result.reason.endswith("100% of the data stayed in the page cache")


def test_tmpfs_is_never_verified() -> None:
    folder = Path("/dev/shm")
    file = folder / f"tare-test-{os.getpid()}"
    try:
        written(file, 4)
        result = evict([file])
    finally:
        file.unlink()
    assert not result.verified
    assert "file system tmpfs" in result.reason


def test_other_users_file_is_distrusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "a", 1)
    assert [text for text in distrust([file]) if "mincore" in text] == []
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    (reason,) = [text for text in distrust([file, file]) if "mincore" in text]
    assert str(file) in reason
    assert "copy the data to a folder of your own" in reason
    assert not evict([file]).verified


MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda rw
22 21 0:5 / /srv rw - nfs4 server:/srv rw
23 22 0:6 / /srv/fast rw - tmpfs tmpfs rw
24 22 8:2 / /srv/fast rw - xfs /dev/sdb rw
25 21 8:3 / /srv2 rw - zfs pool rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a", "ext4"),
        ("/srv/a", "nfs4"),
        ("/srv/fast/a", "xfs"),  # of two mounts on one point the later one is seen
        ("/srv2/a", "zfs"),
        ("/srv22/a", "ext4"),
        ("/srv", "nfs4"),
    ],
)
def test_file_system_of_a_path(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert file_system(Path(path), tmp_path / "mountinfo") == kind


def test_file_system_is_unknown_without_mounts(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("")
    assert file_system(tmp_path, tmp_path / "mountinfo") == "unknown"


@pytest.mark.parametrize(
    ("resident", "read", "expected", "reasons"),
    [
        (0.0, 1000, 1000, ()),
        (0.01, 900, 1000, ()),
        (0.0, 5000, 1000, ()),  # read-ahead
        (0.0, 899, 1000, ("epoch 0 read 899 bytes from the device, 90% of the data it used (needs 90%)",)),
        (0.0, 0, 1000, ("epoch 0 read 0 bytes from the device, 0% of the data it used (needs 90%)",)),
        (0.5, 1000, 1000, ("50% of the data was in the page cache (limit 1%)",)),
        (0.0, None, 1000, ("the kernel does not count the bytes this run read from the device",)),
        (0.0, 1000, 0, ("the worker did not say how many bytes of the data it used",)),
        (
            1.0,
            0,
            10,
            (
                "100% of the data was in the page cache (limit 1%)",
                "epoch 0 read 0 bytes from the device, 0% of the data it used (needs 90%)",
            ),
        ),
    ],
)
def test_cold_proof(resident: float, read: int | None, expected: int, reasons: tuple[str, ...]) -> None:
    assert cold_proof(resident, read, expected) == ColdProof(not reasons, reasons)
