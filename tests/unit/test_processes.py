"""Finding and ending the processes of a run by their environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tare import processes

# Starts a child in a session of its own, says so, and waits.
TREE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@contextmanager
def tree(**variables: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    environment = {"PATH": os.environ["PATH"], **variables}
    with subprocess.Popen(
        [sys.executable, "-c", TREE],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            yield parent, child
        finally:
            parent.kill()
            processes.end(lambda marks: marks["TARE_RUN_ID"] == variables.get("TARE_RUN_ID"))


def test_marks_are_the_tare_variables_alone() -> None:
    with tree(TARE_RUN_ID="u1", TARE_OWNER="o", SECRET="s") as (parent, _):
        assert processes.marks(parent.pid) == {"TARE_RUN_ID": "u1", "TARE_OWNER": "o"}
    assert processes.marks(2**22 + 1) == {}


def test_end_kills_the_tree_of_a_run_and_no_other() -> None:
    with tree(TARE_RUN_ID="u2") as (parent, child), tree(TARE_RUN_ID="u3") as (other, _):
        assert set(processes.find(lambda marks: marks["TARE_RUN_ID"] == "u2")) == {parent.pid, child}
        assert set(processes.end(lambda marks: marks["TARE_RUN_ID"] == "u2")) == {parent.pid, child}
        assert parent.wait() == -signal.SIGKILL
        assert list(processes.find(lambda marks: marks["TARE_RUN_ID"] == "u2")) == []
        assert other.poll() is None


def test_process_without_a_run_id_is_never_a_run_s() -> None:
    with tree(TARE_OWNER="o") as (parent, child):
        assert not {parent.pid, child} & set(processes.find(lambda _: True))
        os.kill(child, signal.SIGKILL)


def test_find_reads_a_recorded_proc(tmp_path: Path) -> None:
    for pid, environ in ((41, b"TARE_RUN_ID=a\0X=1\0"), (42, b"X=TARE_RUN_ID=a\0"), (43, b"TARE_RUN_ID=b\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "environ").write_bytes(environ)
    (tmp_path / "44").mkdir()  # one whose environment this user may not read
    (tmp_path / "uptime").write_text("1")
    assert list(processes.find(lambda marks: marks["TARE_RUN_ID"] == "a", tmp_path)) == [41]
