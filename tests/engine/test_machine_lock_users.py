"""The machine's lock over users: in a folder like /tmp, where fs.protected_regular may be on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare import machine_lock

SOURCE = str(Path(machine_lock.__file__).parents[1])
TRY = """
import sys
from pathlib import Path
from tare import machine_lock
class Waits(Exception): pass
def waits(text): raise Waits(text)
try:
    with machine_lock.exclusive("user", path=Path(sys.argv[1]), announce=waits):
        print("held", flush=True)
except Waits as error:
    print(error)
"""


@pytest.mark.needs("ordinary_user", "root")
@pytest.mark.parametrize("first", ["root", "user"])
def test_users_share_one_lock(
    first: str, user_dir: Path, as_user: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    user_dir.chmod(0o1777)
    os.chown(user_dir, 0, 0)
    path = user_dir / "lock"

    def try_as_user() -> str:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE}
        done = as_user(["python3", "-c", TRY, str(path)], cwd="/", env=environment, umask=0o077)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    if first == "user":
        assert try_as_user() == "held"  # the file is the user's now
    with machine_lock.exclusive("by root", path=path):
        told = try_as_user()
    assert told.startswith(f"waiting for the machine: by root (process {os.getpid()} of user ")
    assert try_as_user() == "held"
