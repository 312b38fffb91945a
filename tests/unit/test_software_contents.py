"""What an archive holds: packages compared with the locks, and hashes of what can be mapped."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from tare.paths import archive_path, libraries_path
from tare.software.contents import check_contents, installed_debs, resolve, write_libraries
from tare.software.errors import SoftwareError
from tare.software.locks import Deb, DebLock, Requirement, WheelLock

STATUS = """\
Package: hpcc
Status: install ok installed
Version: 1.5.0-3

Package: half
Status: install ok unpacked
Version: 1

Package: gone
Status: deinstall ok config-files
Version: 2
"""
SITE = "usr/local/lib/python3.11/dist-packages"


def archive(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = (
                (tarfile.LNKTYPE, target[1:]) if target[0] == "=" else (tarfile.SYMTYPE, target)
            )
            tar.addfile(info)
    return path


def locked(**debs: str) -> DebLock:
    return DebLock("s", "20200101T000000Z", tuple(Deb(n, v, "all", "0" * 64, 1) for n, v in debs.items()))


def wheels(**versions: str) -> WheelLock:
    return WheelLock("3.11", "any", tuple(Requirement(n, v, ("0" * 64,)) for n, v in versions.items()))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    vendored = f"{SITE}/setuptools/_vendor/typing_extensions-4.0.dist-info/METADATA"
    return archive(
        tmp_path / "a.tar",
        {
            "var/lib/dpkg/status": STATUS.encode(),
            f"{SITE}/typing_extensions-4.16.0.dist-info/METADATA": b"",
            f"{SITE}/torch-2.13.0+cpu.dist-info/METADATA": b"",
            vendored: b"",
        },
    )


def test_only_completely_installed_packages_count() -> None:
    assert installed_debs(STATUS) == {"hpcc": "1.5.0-3"}


def test_an_image_with_what_is_locked_passes(image: Path) -> None:
    found = wheels(**{"Typing.Extensions": "4.16.0", "torch": "2.13.0+cpu"})
    check_contents(image, locked(hpcc="1.5.0-3"), found)


@pytest.mark.parametrize(
    ("debs", "distributions", "message"),
    [
        ({"hpcc": "1.5.0-4"}, {}, "hpcc: locked 1.5.0-4, in the image 1.5.0-3"),
        ({"half": "1"}, {}, "half: locked 1, in the image absent"),
        ({}, {"torch": "2.13.0"}, r"torch: locked 2.13.0, in the image 2.13.0\+cpu"),
        ({}, {"numpy": "2.4.6"}, "numpy: locked 2.4.6, in the image absent"),
    ],
)
def test_an_image_with_something_else_is_refused(
    image: Path, debs: dict[str, str], distributions: dict[str, str], message: str
) -> None:
    with pytest.raises(SoftwareError, match=f"{message}.*Dockerfile"):
        check_contents(image, locked(**debs), wheels(**distributions))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("bin/sh", "usr/bin/dash"),
        ("usr/bin/mpirun", "usr/bin/orterun"),
        ("lib/x/libc.so", "usr/lib/x/libc.so"),
        ("usr/lib/../bin/dash", "usr/bin/dash"),
        ("loop", None),
    ],
)
def test_resolve_follows_links_in_folders_and_refuses_loops(path: str, expected: str | None) -> None:
    links = {
        "bin": "usr/bin",
        "lib": "/usr/lib",
        "usr/bin/sh": "dash",
        "usr/bin/mpirun": "/etc/alternatives/mpirun",
        "etc/alternatives/mpirun": "../../usr/bin/orterun",
        "loop": "pool",
        "pool": "loop",
    }
    assert resolve(path, links) == expected


def test_manifest_lists_libraries_programs_and_links_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    digest = "sha256:" + "1" * 64
    files = {
        "usr/lib/libx.so.1.2": b"library",
        "usr/lib/libx.a": b"no",
        "usr/bin/python3.11": b"python",
        "usr/bin/hpcc": b"hpcc",
        "usr/bin/ls": b"no",
        "usr/lib/some.so.d/readme": b"no",
    }
    links = {
        "usr/lib/libx.so.1": "libx.so.1.2",
        "usr/bin/python3": "python3.11",
        "usr/lib/liby.so": "=usr/lib/libx.so.1.2",
    }
    archive(archive_path(digest), files, links)
    assert write_libraries(digest) == libraries_path(digest)
    manifest = json.loads(libraries_path(digest).read_text())
    library = hashlib.sha256(b"library").hexdigest()
    python = hashlib.sha256(b"python").hexdigest()
    assert manifest == {
        "/usr/bin/hpcc": hashlib.sha256(b"hpcc").hexdigest(),
        "/usr/bin/python3": python,
        "/usr/bin/python3.11": python,
        "/usr/lib/libx.so.1": library,
        "/usr/lib/libx.so.1.2": library,
        "/usr/lib/liby.so": library,
    }
    assert [*manifest] == sorted(manifest)
