"""Lock files: read, written back the same, and refused with the line and the remedy."""

from pathlib import Path

import pytest

from tare.software.errors import SoftwareError
from tare.software.locks import (
    Deb,
    DebLock,
    StackLock,
    parse_deb_lock,
    parse_deb_wish,
    parse_wheel_lock,
)

A, B = "a" * 64, "b" * 64
LOCK = f"# suite bookworm\n# snapshot 20261129T005313Z\nhpcc 1.5.0-3 amd64 sha256:{A} 10\nzlib 1:2.3 all sha256:{B} 7\n"


def test_deb_lock_is_written_back_as_read() -> None:
    lock = parse_deb_lock(LOCK, "x")
    assert lock == DebLock(
        "bookworm",
        "20261129T005313Z",
        (Deb("hpcc", "1.5.0-3", "amd64", A, 10), Deb("zlib", "1:2.3", "all", B, 7)),
    )
    assert lock.text() == LOCK
    assert lock.epoch == 1795913593


def test_deb_lock_sorts_packages_by_name() -> None:
    lock = parse_deb_lock(LOCK, "x")
    assert DebLock(lock.suite, lock.snapshot, lock.debs[::-1]).text() == LOCK


def test_file_name_escapes_the_epoch_as_apt_does() -> None:
    assert Deb("zlib", "1:2.3-1", "amd64", A, 1).file_name == "zlib_1%3a2.3-1_amd64.deb"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOCK + "half a line\n", r"x, line 5: 'half a line' is not .*make relock"),
        (LOCK.replace(A, A[1:]), r"x, line 3: .*make relock"),
        (LOCK.replace("# suite bookworm\n", ""), r"x: needs the header lines.*make relock"),
        (LOCK.replace("T005313Z", ""), r"x: needs the header lines.*make relock"),
    ],
)
def test_damaged_deb_lock_is_refused(text: str, message: str) -> None:
    with pytest.raises(SoftwareError, match=message):
        parse_deb_lock(text, "x")


def test_wheel_lock_reads_names_versions_and_all_hashes() -> None:
    text = (
        "# python 3.11 manylinux_2_28_x86_64\n"
        f"numpy==2.4.6 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n"
        f"# a comment\ntorch==2.13.0+cpu --hash=sha256:{B}\n"
    )
    lock = parse_wheel_lock(text, "x")
    assert (lock.python, lock.platform) == ("3.11", "manylinux_2_28_x86_64")
    assert [(r.name, r.version, r.sha256) for r in lock.requirements] == [
        ("numpy", "2.4.6", (A, B)),
        ("torch", "2.13.0+cpu", (B,)),
    ]
    assert lock.requirements[0].lines() == (
        f"numpy==2.4.6 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("numpy==2.4.6\n", "numpy==2.4.6"),
        (f"numpy>=2 --hash=sha256:{A}\n", "numpy>=2"),
        (f"numpy==2.4.6 --hash=sha256:{A[1:]}\n", "numpy==2.4.6"),
    ],
)
def test_wheel_without_version_or_hash_is_refused(body: str, message: str) -> None:
    with pytest.raises(SoftwareError, match=f"x: '{message}.*make relock"):
        parse_wheel_lock(f"# python 3.11 manylinux_2_28_x86_64\n{body}", "x")


def test_wheel_lock_without_target_is_refused() -> None:
    with pytest.raises(SoftwareError, match="first line must be"):
        parse_wheel_lock("numpy==2.4.6\n", "x")


def test_wish_reads_suite_and_names_without_comments() -> None:
    wish = parse_deb_wish("# c\nsuite: bookworm\nhpcc  # why\n\nlibstdc++6\n", "x")
    assert (wish.suite, wish.names) == ("bookworm", ("hpcc", "libstdc++6"))


@pytest.mark.parametrize(
    "text", ["hpcc\n", "suite: bookworm\nhpcc openmpi-bin\n", "suite: bookworm\n--yes\n"]
)
def test_bad_wish_is_refused(text: str) -> None:
    with pytest.raises(SoftwareError, match=r"x: .*write “suite: bookworm”"):
        parse_deb_wish(text, "x")


def test_lock_hash_changes_with_either_file(tmp_path: Path) -> None:
    (tmp_path / "s.lock.txt").write_text("# python 3.11 any\n")
    (tmp_path / "s.debs.lock").write_text(LOCK)
    lock = StackLock(tmp_path, "s")
    before = lock.sha256()
    (tmp_path / "s.debs.lock").write_text(LOCK.replace("1.5.0-3", "1.5.0-4"))
    other_debs = lock.sha256()
    (tmp_path / "s.lock.txt").write_text("# python 3.12 any\n")
    assert len({before, other_debs, lock.sha256()}) == 3


def test_absent_lock_names_file_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(SoftwareError, match=r"s\.lock\.txt: No such file.*make relock"):
        StackLock(tmp_path, "s").sha256()


@pytest.mark.parametrize("name", ["base", "hpc", "torch"])
def test_committed_locks_can_be_read_and_name_no_host(repository: Path, name: str) -> None:
    lock = StackLock(repository / "envs", name)
    assert lock.debs().suite == lock.wish().suite == "bookworm"
    assert lock.wheels().python == "3.11"
    for path in (lock.debs_path, lock.wheels_path):
        assert "://" not in path.read_text()


def test_committed_stacks_build_on_the_base(repository: Path) -> None:
    base = {deb.name for deb in StackLock(repository / "envs", "base").debs().debs}
    assert {"python3", "apt", "dpkg", "libc6"} <= base
    hpc = {deb.name for deb in StackLock(repository / "envs", "hpc").debs().debs}
    assert {"hpcc", "libopenblas0-pthread", "openmpi-bin", "ioping", "fio", "iperf3"} <= hpc
    assert not hpc & base
    torch = {(r.name, r.version) for r in StackLock(repository / "envs", "torch").wheels().requirements}
    assert ("torch", "2.13.0+cpu") in torch
    assert {"numpy", "pip"} <= {name for name, _ in torch}
