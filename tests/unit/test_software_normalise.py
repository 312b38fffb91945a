"""The canonical archive: equal content gives equal bytes, and what a build leaves behind is not content."""

import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from tare.software.errors import SoftwareError
from tare.software.normalise import EMPTY, HOSTS, is_left_out, normalise

EPOCH = 1_700_000_000


def entry(name: str, kind: bytes = tarfile.REGTYPE, **values: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = kind, 0o644, EPOCH - 100
    for key, value in values.items():
        setattr(info, key, value)
    return info


def make(
    path: Path, entries: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.GNU_FORMAT
) -> Path:
    with tarfile.open(path, "w", format=form) as tar:
        for info, data in entries:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def read(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path, "r:") as tar:
        return {info.name: info for info in tar}


def content(path: Path, name: str) -> bytes:
    with tarfile.open(path, "r:") as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def plain() -> list[tuple[tarfile.TarInfo, bytes]]:
    return [
        (entry("usr", tarfile.DIRTYPE, mode=0o755), b""),
        (entry("usr/b", uid=7, gid=8), b"two"),
        (entry("usr/a"), b"one"),
        (entry("bin", tarfile.SYMTYPE, linkname="usr/bin", mode=0o777), b""),
    ]


def test_the_digest_is_that_of_the_written_file(tmp_path: Path) -> None:
    digest = normalise(make(tmp_path / "in", plain()), tmp_path / "out", EPOCH)
    assert digest == hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest()


def test_order_names_of_owners_and_format_do_not_matter(tmp_path: Path) -> None:
    first = normalise(make(tmp_path / "1", plain()), tmp_path / "out1", EPOCH)
    others = [(info, data) for info, data in reversed(plain())]
    for info, _ in others:
        info.name = f"./{info.name}"
        info.uname = info.gname = "somebody"
        info.pax_headers = {"atime": "1.5", "SCHILY.xattr.user.overlay.origin": "x"}
    second = normalise(make(tmp_path / "2", others, tarfile.PAX_FORMAT), tmp_path / "out2", EPOCH)
    assert first == second


@pytest.mark.parametrize(
    "change", [{"mode": 0o600}, {"uid": 9}, {"mtime": EPOCH - 99}, {"name": "usr/c"}, {"linkname": "lib"}]
)
def test_everything_that_is_content_matters(tmp_path: Path, change: dict[str, object]) -> None:
    first = normalise(make(tmp_path / "1", plain()), tmp_path / "out1", EPOCH)
    entries = plain()
    target = entries[3][0] if "linkname" in change else entries[1][0]
    for key, value in change.items():
        setattr(target, key, value)
    assert normalise(make(tmp_path / "2", entries), tmp_path / "out2", EPOCH) != first


def test_data_matters(tmp_path: Path) -> None:
    entries = plain()
    entries[1] = (entries[1][0], b"owt")
    first = normalise(make(tmp_path / "1", plain()), tmp_path / "out1", EPOCH)
    assert normalise(make(tmp_path / "2", entries), tmp_path / "out2", EPOCH) != first


def test_times_are_clamped_to_the_epoch_and_fractions_dropped(tmp_path: Path) -> None:
    entries = [(entry("new", mtime=EPOCH + 5), b""), (entry("old", mtime=EPOCH - 5.5), b"")]
    normalise(make(tmp_path / "in", entries, tarfile.PAX_FORMAT), tmp_path / "out", EPOCH)
    found = read(tmp_path / "out")
    assert (found["new"].mtime, found["old"].mtime) == (EPOCH, EPOCH - 6)
    assert not found["old"].pax_headers


def test_names_are_sorted_and_fixed_entries_present(tmp_path: Path) -> None:
    normalise(make(tmp_path / "in", plain()), tmp_path / "out", EPOCH)
    names = [*read(tmp_path / "out")]
    assert names == sorted({*EMPTY, HOSTS[0], "usr", "usr/a", "usr/b", "bin"})
    assert content(tmp_path / "out", "etc/hosts") == HOSTS[1]
    assert read(tmp_path / "out")["tmp"].mode == 0o1777
    assert {"tare", "data"} <= {*names}


@pytest.mark.parametrize(
    "name",
    [
        ".dockerenv",
        "etc/hostname",
        "etc/resolv.conf",
        "etc/machine-id",
        "etc/mtab",
        "etc/apt/sources.list",
        "etc/apt/sources.list.d/0000x.list",
        "var/log/dpkg.log",
        "var/log/apt/history.log",
        "var/cache/apt/archives/x.deb",
        "var/cache/ldconfig/aux-cache",
        "var/cache/debconf/templates.dat-old",
        "var/lib/apt/lists/x_Packages",
        "var/lib/dpkg/lock-frontend",
        "var/lib/dpkg/status-old",
        "dev/console",
        "proc/1",
        "run/lock",
        "tmp/tare/wheels/torch.whl",
        "tmp/tare/debs/hpcc.deb",
        "root/.cache/pip/x",
        "etc/passwd-",
    ],
)
def test_left_behind_is_left_out(name: str) -> None:
    assert is_left_out(name)


@pytest.mark.parametrize(
    "name",
    [
        "etc/passwd",
        "etc/apt/sources.list.d",
        "var/log",
        "var/lib/dpkg/status",
        "var/lib/dpkg/info/libc6:amd64.list",
        "usr/tmp/x",
        "usr/lib/python3.11/__pycache__/os.cpython-311.pyc",
        "developer",
        "usr/share/etc/hostname",
        "root",
    ],
)
def test_content_is_kept(name: str) -> None:
    assert not is_left_out(name)


def test_engine_files_give_the_same_digest_as_none(tmp_path: Path) -> None:
    extra = [(entry(name), b"abc") for name in (".dockerenv", "etc/hosts", "etc/hostname", "dev/console")]
    first = normalise(make(tmp_path / "1", plain()), tmp_path / "out1", EPOCH)
    assert normalise(make(tmp_path / "2", [*plain(), *extra]), tmp_path / "out2", EPOCH) == first


@pytest.mark.parametrize(("real", "link"), [("usr/a", "usr/z"), ("usr/z", "usr/a")])
def test_hard_links_point_at_the_first_name_whichever_held_the_data(
    tmp_path: Path, real: str, link: str
) -> None:
    entries = [(entry(real), b"data"), (entry(link, tarfile.LNKTYPE, linkname=f"./{real}"), b"")]
    normalise(make(tmp_path / "in", entries), tmp_path / "out", EPOCH)
    found = read(tmp_path / "out")
    assert (found["usr/a"].isreg(), found["usr/z"].islnk(), found["usr/z"].linkname) == (True, True, "usr/a")
    assert content(tmp_path / "out", "usr/z") == b"data"


def test_a_hard_link_survives_the_removal_of_the_name_that_held_the_data(tmp_path: Path) -> None:
    entries = [(entry("tmp/x"), b"data"), (entry("usr/a", tarfile.LNKTYPE, linkname="tmp/x"), b"")]
    normalise(make(tmp_path / "in", entries), tmp_path / "out", EPOCH)
    assert content(tmp_path / "out", "usr/a") == b"data"


def test_long_names_and_file_capabilities_survive(tmp_path: Path) -> None:
    name = "usr/" + "n" * 300
    info = entry(name, pax_headers={"SCHILY.xattr.security.capability": "cap"})
    normalise(make(tmp_path / "in", [(info, b"x")], tarfile.PAX_FORMAT), tmp_path / "out", EPOCH)
    assert read(tmp_path / "out")[name].pax_headers["SCHILY.xattr.security.capability"] == "cap"


def test_a_device_outside_dev_is_refused(tmp_path: Path) -> None:
    entries = [(entry("usr/null", tarfile.CHRTYPE, devmajor=1, devminor=3), b"")]
    with pytest.raises(SoftwareError, match=r"/usr/null is a device file.*Dockerfile"):
        normalise(make(tmp_path / "in", entries), tmp_path / "out", EPOCH)
