"""What is missing, told from files alone; which interpreter is tried first; what os-release says."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tare.setup import needs, pythons
from tare.setup.facts import disk, os_release


def names(packages: tuple[needs.Package, ...]) -> list[str]:
    return [package.name for package in packages]


def touch(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()


def test_missing_on_an_empty_machine(tmp_path: Path) -> None:
    everything = [package.name for package in needs.PACKAGES]
    assert names(needs.missing(tmp_path, ordinary_user=True, bootstrap=True, crun=True)) == everything
    assert "crun" not in names(needs.missing(tmp_path, ordinary_user=True, bootstrap=True))
    assert "uidmap" not in names(needs.missing(tmp_path, ordinary_user=False, bootstrap=True))
    optional = ["hpcc", "libopenblas0-pthread", "openmpi-bin", "ioping", "fio", "iperf3"]
    assert names(needs.missing(tmp_path, ordinary_user=True, bootstrap=False)) == optional


def test_present_files_prove_a_package(tmp_path: Path) -> None:
    touch(tmp_path, "usr/bin/mmdebstrap", "usr/share/keyrings/debian-archive-keyring.pgp", "usr/bin/mpirun")
    touch(tmp_path, "usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0")
    touch(tmp_path, "usr/bin/ioping", "usr/bin/fio", "usr/bin/iperf3")
    assert names(needs.missing(tmp_path, ordinary_user=False, bootstrap=True)) == ["hpcc"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["runtimes: [chroot, crun, docker]\n"], True),
        (["study: x\n", "variants:\n  ladder-mount:\n    base: crun # or docker\n"], True),
        (["variants:\n  x: {base: docker} # crun would do too\n"], False),
        (["# base: crun\n"], False),
        (["study: crunch\n"], False),
        ([], False),
    ],
)
def test_crun_is_needed_where_a_config_says_so(tmp_path: Path, texts: list[str], expected: bool) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    assert needs.has_crun([tmp_path / "absent.yaml", *files]) is expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["software:\n  base:\n    source: bootstrap # or registry\n"], True),
        (["software:\n  base:\n    source: registry\n"], False),
        (
            ["software:\n  base:\n    source: bootstrap\n", "software: \n  base:\n    source: 'registry'\n"],
            False,
        ),
        (["software:\n  base:\n    # source: registry\n"], True),
        (["study: x\n"], True),
        ([], True),
    ],
)
def test_base_source_is_read_from_the_last_config_that_says_it(
    tmp_path: Path, texts: list[str], expected: bool
) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    assert needs.bootstraps([*files, tmp_path / "absent.yaml"]) is expected


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_candidates_keep_the_paths_order_and_drop_what_is_absent(tmp_path: Path) -> None:
    program(tmp_path / "b" / "python3", "")
    program(tmp_path / "a" / "python3.12", "")
    (tmp_path / "a" / "python3").touch()  # not executable
    path = f"{tmp_path}/a::{tmp_path}/b:{tmp_path}/b"
    found = [each for each in pythons.candidates({"PATH": path}) if each.startswith(str(tmp_path))]
    assert found == [f"{tmp_path}/a/python3.12", f"{tmp_path}/b/python3"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 3 12; echo venv", pythons.Python("", (3, 12), True)),
        ("echo 3 11; exit 1", pythons.Python("", (3, 11), False)),
        ("echo broken", None),
        ("exit 127", None),
    ],
)
def test_examine(tmp_path: Path, script: str, expected: pythons.Python | None) -> None:
    path = tmp_path / "python3"
    program(path, f"#!/bin/sh\n{script}\n")
    found = pythons.examine(str(path))
    assert found == (expected and pythons.Python(str(path), expected.version, expected.venv))


def test_examine_of_nothing(tmp_path: Path) -> None:
    assert pythons.examine(str(tmp_path / "absent")) is None


def test_os_release(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('# comment\nID=ubuntu\nPRETTY_NAME="Ubuntu 24.04 LTS"\nID_LIKE=debian\n\n')
    assert os_release(file) == {"ID": "ubuntu", "PRETTY_NAME": "Ubuntu 24.04 LTS", "ID_LIKE": "debian"}
    assert os_release(tmp_path / "absent") == {}


def test_disk_of_a_folder_to_be_made(tmp_path: Path) -> None:
    found = disk(tmp_path / "not" / "yet")
    assert (found.folder, found.wanted, found.writable) == (
        str(tmp_path),
        str(tmp_path / "not" / "yet"),
        True,
    )
    assert found.device == tmp_path.stat().st_dev
    assert found.free > 0
