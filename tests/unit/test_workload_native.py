"""Running a native program: its command, its one object, and an error that says which program failed and how."""

from __future__ import annotations

import hashlib
from pathlib import Path

import native_runs
import pytest

from tare.worker.request import Request
from tare.workloads import native
from tare.workloads.native import NativeError


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    return native_runs.request(tmp_path, "stream", {"bytes": "quick"})


def script(folder: Path, body: str) -> None:
    (folder / "tool").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "tool").chmod(0o755)


def test_arguments_are_names_and_values(tmp_path: Path, request_: Request) -> None:
    native_runs.put_result(tmp_path, "tool", {"a": [1, None]})
    assert native.run(request_, "tool", {"threads": 2, "isa": "auto", "share": 0.5}) == {"a": [1, None]}
    assert (tmp_path / "arguments").read_text() == "--threads 2 --isa auto --share 0.5\n"
    assert native.command(request_, "tool", {}) == [str(tmp_path / "tool")]


def test_it_runs_in_the_folder_of_the_run(tmp_path: Path, request_: Request) -> None:
    script(tmp_path, """printf '{"folder": "%s"}' "$PWD" """)
    assert native.run(request_, "tool", {}) == {"folder": str(tmp_path)}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "echo '--bytes: 1 is out of range' >&2; echo '{}'; exit 2",
            r"tool ended with status 2: --bytes: 1 is out of range; arguments: --bytes 1",
        ),
        ("exit 1", r"tool ended with status 1: no output; arguments: --bytes 1"),
        ("kill -9 $$", r"tool ended with status -9"),
        ("echo hello", r"tool printed something else than one JSON object: hello"),
        ("echo '[1]'", r"tool printed something else than one JSON object: \[1\]"),
        ("echo '{} {}'", r"something else than one JSON object"),
        ("true", r"something else than one JSON object: no output"),
        ("printf '\\377'", r"something else than one JSON object"),
    ],
)
def test_a_failure_names_the_program(tmp_path: Path, request_: Request, body: str, message: str) -> None:
    script(tmp_path, body)
    with pytest.raises(NativeError, match=message):
        native.run(request_, "tool", {"bytes": 1})


def test_a_program_that_does_not_end(tmp_path: Path, request_: Request) -> None:
    script(tmp_path, "exec tail -f /dev/null")
    with pytest.raises(NativeError, match=r"tool was ended after 0.05 s; arguments: none"):
        native.run(request_, "tool", {}, timeout=0.05)


def test_a_program_that_cannot_start(tmp_path: Path, request_: Request) -> None:
    (tmp_path / "tool").write_bytes(b"\x7fELF")
    with pytest.raises(NativeError, match=r"tool cannot be started: .*Permission denied"):
        native.run(request_, "tool", {})
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(NativeError, match=r"tool cannot be started: .*Exec format error"):
        native.run(request_, "tool", {})


def test_an_absent_program_says_what_the_workload_must_declare(request_: Request) -> None:
    with pytest.raises(NativeError, match=r"no file tool in the run's folder; .* declare native='tool'"):
        native.run(request_, "tool", {})


def test_software_is_name_and_content(tmp_path: Path, request_: Request) -> None:
    script(tmp_path, "true")
    sha256 = hashlib.sha256((tmp_path / "tool").read_bytes()).hexdigest()
    assert native.software("tool", request_) == {"program": "tool", "sha256": sha256}
