"""The host form: which interpreter, which packages, and the exact remedy when one is absent."""

from pathlib import Path

import pytest

from tare.software.errors import Skipped
from tare.software.venv import find_interpreter, host_debs

STATUS = "Package: hpcc\nStatus: install ok installed\nVersion: 1.5.0-3\n"


def python(folder: Path, name: str, answer: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {answer}\n")
    path.chmod(0o755)
    return str(path)


def test_installed_packages_are_told_with_their_versions(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(STATUS)
    assert host_debs(["hpcc"], tmp_path / "status") == {"hpcc": "1.5.0-3"}
    assert host_debs([], tmp_path / "absent") == {}


@pytest.mark.parametrize("status", [STATUS, ""])
def test_absent_packages_are_named_with_the_command(tmp_path: Path, status: str) -> None:
    (tmp_path / "status").write_text(status)
    absent = "openmpi-bin" if status else "hpcc openmpi-bin"
    with pytest.raises(Skipped, match=f"install: apt-get install {absent}$"):
        host_debs(["hpcc", "openmpi-bin"], tmp_path / "status")


def test_the_first_folder_with_the_minor_version_wins(tmp_path: Path) -> None:
    first = python(tmp_path / "a", "python3", "3.11.2 True")
    python(tmp_path / "b", "python3.11", "3.11.9 True")
    assert find_interpreter("3.11", [str(tmp_path / "a"), str(tmp_path / "b")]) == (first, "3.11.2")


@pytest.mark.parametrize("answer", ["3.12.1 True", "3.1.1 True", "3.11.4 False", ""])
def test_other_versions_and_venvs_are_passed_over(tmp_path: Path, answer: str) -> None:
    python(tmp_path / "a", "python3", answer)
    good = python(tmp_path / "b", "python3.11", "3.11.9 True")
    assert find_interpreter("3.11", [str(tmp_path / "a"), str(tmp_path / "b")]) == (good, "3.11.9")


def test_no_interpreter_is_a_skip_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match=r"no Python 3\.11.*apt-get install python3\.11$"):
        find_interpreter("3.11", [str(tmp_path)])
