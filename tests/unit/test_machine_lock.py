"""The machine's lock with real processes: who waits for whom is shown by a timeline, not by sleeping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tare import machine_lock

# Announces each step on stdout and goes on when a line comes in.
HOLDER = """
import sys
from pathlib import Path
from tare import machine_lock
mode, path = sys.argv[1:]
def say(text): print(text, flush=True)
with getattr(machine_lock, mode)(f"test {mode}", path=Path(path), announce=say):
    say("held")
    sys.stdin.readline()
    say("leaving")
"""


class Process:
    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen

    def line(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()


@contextmanager
def process(mode: str, path: Path) -> Iterator[Process]:
    source = str(Path(machine_lock.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, mode, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    ) as popen:
        try:
            yield Process(popen)
        finally:
            popen.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.mark.parametrize(
    ("first", "second"), [("exclusive", "exclusive"), ("exclusive", "shared"), ("shared", "exclusive")]
)
def test_second_waits_for_the_first_and_says_for_whom(path: Path, first: str, second: str) -> None:
    with process(first, path) as one:
        assert one.line() == "held"
        with process(second, path) as two:
            told = two.line()
            assert told.startswith(f"waiting for the machine: test {first} (process {one.popen.pid} of user ")
            assert f" in {Path.cwd()}, since " in told
            one.go_on()
            assert one.line() == "leaving"
            assert two.line() == "held"  # never before the first left: its line came after


def test_shared_holders_do_not_wait_for_each_other(path: Path) -> None:
    with process("shared", path) as one, process("shared", path) as two:
        assert [one.line(), two.line()] == ["held", "held"]


def test_lock_of_a_killed_holder_is_no_obstacle(path: Path) -> None:
    with process("exclusive", path) as one:
        assert one.line() == "held"
        one.popen.send_signal(signal.SIGKILL)
        one.popen.wait()
        with process("exclusive", path) as two:
            assert two.line() == "held"


def test_lock_is_not_inherited_by_a_child(path: Path) -> None:
    with machine_lock.exclusive("parent", path=path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with child, process("exclusive", path) as other:
        assert other.line() == "held"
        child.kill()


def test_lock_file_removed_while_waiting_lets_nobody_in_twice(path: Path) -> None:
    with process("exclusive", path) as one:
        assert one.line() == "held"
        with process("exclusive", path) as two:
            assert two.line().startswith("waiting")
            path.unlink()
            with process("exclusive", path) as three:
                assert three.line() == "held"  # of the new file
                one.go_on()
                assert one.line() == "leaving"
                # `two` gets the old file's lock, sees that it is not the file of that name, and waits for `three`.
                three.go_on()
                assert three.line() == "leaving"
                assert two.line() == "held"


def test_file_is_open_to_all_users_whatever_the_umask(path: Path) -> None:
    before = os.umask(0o077)
    try:
        with machine_lock.exclusive("umask", path=path):
            assert path.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)
    assert [entry.name for entry in path.parent.iterdir()] == ["lock"]


def test_lock_is_given_back_after_an_error(path: Path) -> None:
    with pytest.raises(RuntimeError), machine_lock.exclusive("fails", path=path):
        raise RuntimeError
    with process("exclusive", path) as other:
        assert other.line() == "held"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json",
        "[]",
        '{"pid": 1}',
        '{"pid": "x", "started": 1, "user": "u", "folder": "/", "since": "s", "what": "w"}',
        '{"pid": 4194305, "started": 1, "user": "u", "folder": "/", "since": "s", "what": "w"}',
    ],
)
def test_what_stands_in_the_file_is_not_believed(path: Path, content: str) -> None:
    path.write_text(content)
    assert machine_lock.holder(path) == "held by another process"


def test_holder_that_could_not_write_is_named_by_the_kernel(path: Path) -> None:
    with process("exclusive", path) as one:
        assert one.line() == "held"
        path.write_text("garbage")
        assert machine_lock.holder(path) == f"held by process {one.popen.pid}"


@pytest.mark.parametrize("kind", ["symlink", "folder", "fifo"])
def test_what_is_not_a_plain_file_is_refused(path: Path, kind: str) -> None:
    if kind == "symlink":
        path.symlink_to("/etc/passwd")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(machine_lock.LockError, match=r"lock.*remove"), machine_lock.exclusive("x", path=path):
        pass


def test_every_user_gets_the_same_path() -> None:
    assert machine_lock.lock_path() in (Path("/run/lock/tare-machine.lock"), Path("/tmp/tare-machine.lock"))
