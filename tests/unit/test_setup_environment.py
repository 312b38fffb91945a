"""The state of .venv and the order of the commands that make it, without making one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tare.setup import environment
from tare.setup.environment import SetupError, VenvState
from tare.software.safe_delete import remove_tree

PIPELINE, DEVELOP = "pipeline lock\n", "develop lock\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "envs").mkdir()
    environment.lock_file(tmp_path, "pipeline").write_text(PIPELINE)
    environment.lock_file(tmp_path, "develop").write_text(DEVELOP)
    return tmp_path


def make_venv(checkout: Path, lock: str | None, path: str | None = None, runs: bool = True) -> None:
    venv = checkout / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "lib/python3.11/site-packages").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(f"#!/bin/sh\nexit {0 if runs else 1}\n")
    python.chmod(0o755)
    if lock is not None:
        stamp = {"lock": "x", "sha256": hashlib.sha256(lock.encode()).hexdigest(), "path": path or str(venv)}
        (venv / environment.STAMP).write_text(json.dumps(stamp))


class Runner:
    """Notes each command; the one whose words include ``fails`` fails; ``venv`` makes the folder."""

    def __init__(self, checkout: Path, fails: str = "nothing") -> None:
        self.checkout, self.fails, self.calls = checkout, fails, list[list[str]]()

    def __call__(self, argv: Sequence[str]) -> int:
        self.calls.append(list(argv))
        if argv[1:3] == ["-m", "venv"]:
            make_venv(self.checkout, None)
        return int(self.fails in argv)


def test_ready_for_what_the_lock_covers(checkout: Path) -> None:
    make_venv(checkout, DEVELOP)
    assert environment.state(checkout, "test") == VenvState("ready", "up to date")
    assert environment.state(checkout, "study").ready


def test_the_pipelines_environment_is_extended_for_tests(checkout: Path) -> None:
    make_venv(checkout, PIPELINE)
    assert environment.state(checkout, "study").ready
    assert environment.state(checkout, "test") == VenvState("extend", "the tests need more")


@pytest.mark.parametrize(
    ("lock", "path", "runs", "why"),
    [
        (None, None, True, "it was left half made"),
        (PIPELINE, "/elsewhere/.venv", True, "it was made for /elsewhere/.venv"),
        (PIPELINE, None, False, "its interpreter no longer runs"),
        ("an older lock\n", None, True, "envs/pipeline.lock.txt has changed"),
    ],
)
def test_broken_or_old_is_remade(
    checkout: Path, lock: str | None, path: str | None, runs: bool, why: str
) -> None:
    make_venv(checkout, lock, path, runs)
    assert environment.state(checkout, "study") == VenvState("make", why)


@pytest.mark.parametrize("stamp", ["", "[]", "{"])
def test_unreadable_stamp_counts_as_half_made(checkout: Path, stamp: str) -> None:
    make_venv(checkout, PIPELINE)
    (checkout / ".venv" / environment.STAMP).write_text(stamp)
    assert environment.state(checkout, "study").why == "it was left half made"


def test_missing_lock_names_the_remedy(checkout: Path) -> None:
    environment.lock_file(checkout, "develop").unlink()
    make_venv(checkout, PIPELINE)
    with pytest.raises(SetupError, match=r"develop.lock.txt cannot be read .* restore it: git checkout"):
        environment.state(checkout, "test")


def test_make_from_nothing(checkout: Path) -> None:
    runner = Runner(checkout)
    environment.make(checkout, "study", "/usr/bin/python3", runner, remove_tree)
    venv, pip = runner.calls
    assert venv == ["/usr/bin/python3", "-m", "venv", f"{checkout}/.venv"]
    assert pip[:4] == [f"{checkout}/.venv/bin/python", "-m", "pip", "install"]
    assert "--require-hashes" in pip
    assert pip[-2:] == ["-r", f"{checkout}/envs/pipeline.lock.txt"]
    assert environment.state(checkout, "study").ready
    pth = checkout / ".venv/lib/python3.11/site-packages/tare.pth"
    assert pth.read_text() == f"{checkout}/src\n"


def test_half_made_is_removed_first(checkout: Path) -> None:
    make_venv(checkout, None)
    old = checkout / ".venv" / "old"
    old.touch()
    environment.make(checkout, "study", "python3", Runner(checkout), remove_tree)
    assert not old.exists()


def test_extending_keeps_what_is_there(checkout: Path) -> None:
    make_venv(checkout, PIPELINE)
    runner = Runner(checkout)
    environment.make(checkout, "test", "python3", runner, remove_tree)
    assert [call[2] for call in runner.calls] == ["pip"]
    assert environment.state(checkout, "test").ready


@pytest.mark.parametrize(
    ("fails", "message"),
    [("venv", r"python3 could not make .*/\.venv"), ("pip", r"is the network up.*pip config")],
)
def test_failure_leaves_no_stamp(checkout: Path, fails: str, message: str) -> None:
    make_venv(checkout, "an older lock\n")
    with pytest.raises(SetupError, match=message):
        environment.make(checkout, "study", "python3", Runner(checkout, fails), remove_tree)
    assert environment.state(checkout, "study").why == "it was left half made"
