"""Running installed programs: found, heard, and refused when they complain."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tare.workloads import tool
from tare.workloads.tool import Said, ToolError


def test_output_error_and_status_are_returned(tmp_path: Path) -> None:
    said = tool.run(["sh", "-c", "pwd; cat; echo bad >&2; exit 3"], str(tmp_path))
    assert said == Said(3, f"{tmp_path}\n", "bad\n")


def test_output_goes_to_memory_and_not_to_a_file(tmp_path: Path) -> None:
    said = tool.run(["readlink", "/proc/self/fd/1", "/proc/self/fd/2"], str(tmp_path))
    assert [line.split(":")[0] for line in said.stdout.splitlines()] == ["/memfd", "/memfd"]
    assert list(tmp_path.iterdir()) == []


def test_an_absent_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="ioping is not installed; install the package ioping"):
        tool.find("ioping", "ioping")


def test_programs_are_found_without_a_path_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    assert Path(tool.find("sh", "dash")).name == "sh"


@pytest.mark.parametrize(
    ("said", "reasons"),
    [
        (Said(0, "x", ""), []),
        (Said(0, "x", " \n"), []),
        (Said(0, "x", "warning: y\n"), ["fio complained: warning: y"]),
        (Said(1, "", "a\nb\n"), ["fio ended with status 1: a | b"]),
        (Said(-9, "", ""), ["fio ended with status -9: no message"]),
    ],
)
def test_what_a_program_says_against_itself(said: Said, reasons: list[str]) -> None:
    assert tool.exit_reasons("fio", said) == reasons


def test_libraries_are_what_the_loader_maps() -> None:
    found = tool.libraries(sys.executable)
    assert os.path.realpath(sys.executable) in found
    assert any("libc.so" in path for path in found)
    assert found == sorted(found)
