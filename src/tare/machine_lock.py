"""One lock for the machine, over users and folders: a measurement runs alone, and heavy other work waits for it.

flock(2) on one world-readable file: it ends with its process, so a stale file is no obstacle. What stands in the
file is only for people: who holds the lock, written by the holder and believed only while that process lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tare.identity import start_ticks

NAME = "tare-machine.lock"


class LockError(OSError):
    """The lock file cannot be used; the message names it and the fix."""


def lock_path() -> Path:
    """Return the file that all users of this machine share: in /run/lock where everybody may write, else in /tmp."""
    folder = Path("/run/lock")
    with suppress(OSError):
        if folder.stat().st_mode & stat.S_IWOTH:
            return folder / NAME
    return Path("/tmp") / NAME


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def exclusive(
    description: str, *, path: Path | None = None, announce: Callable[[str], None] = _say
) -> Iterator[None]:
    """Hold the machine alone, for a measurement; waits for every other holder, saying once for whom."""
    with _held(fcntl.LOCK_EX, description, path or lock_path(), announce):
        yield


@contextmanager
def shared(
    description: str, *, path: Path | None = None, announce: Callable[[str], None] = _say
) -> Iterator[None]:
    """Hold the machine together with other heavy work (downloads, builds); waits for a measurement."""
    with _held(fcntl.LOCK_SH, description, path or lock_path(), announce):
        yield


@contextmanager
def _held(mode: int, description: str, path: Path, announce: Callable[[str], None]) -> Iterator[None]:
    handle = _lock(mode, path, announce)
    try:
        _write_holder(path, handle, description)
        yield
    finally:
        os.close(handle)


def _lock(mode: int, path: Path, announce: Callable[[str], None]) -> int:
    """Return a locked descriptor of the file that has the name now: one removed meanwhile locks nobody out."""
    announced = False
    while True:
        handle = _open(path)
        try:
            try:
                fcntl.flock(handle, mode | fcntl.LOCK_NB)
            except BlockingIOError:
                if not announced:
                    announce(f"waiting for the machine: {holder(path)}")
                    announced = True
                fcntl.flock(handle, mode)
            if _is_current(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _open(path: Path) -> int:
    """Open the file, made if need be. First without O_CREAT: fs.protected_regular forbids it on another's file."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO there would block
    while True:
        try:
            handle = os.open(path, flags)
            break
        except FileNotFoundError:
            with suppress(FileExistsError):
                _create(path)
        except OSError as error:
            raise LockError(
                f"{path}: the machine's lock cannot be opened ({error.strerror}); remove it"
            ) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise LockError(f"{path}: the machine's lock must be a plain file; remove what is there")
    return handle


def _create(path: Path) -> None:
    """Make the file at once with its final mode: nobody may meet one that is closed to him."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.fchmod(handle, 0o666)
        os.link(draft, path)
    finally:
        os.close(handle)
        Path(draft).unlink()


def _is_current(path: Path, handle: int) -> bool:
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    held = os.fstat(handle)
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


def _write_holder(path: Path, handle: int, description: str) -> None:
    """Say in the file who holds the lock; a file that this user may not write stays as it is."""
    entry = {
        "pid": os.getpid(),
        "started": start_ticks(os.getpid()),
        "user": _user(),
        "folder": str(Path.cwd()),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "what": description,
    }
    with suppress(OSError), open(path, "r+b", opener=_no_follow) as file:
        if os.path.samestat(os.fstat(file.fileno()), os.fstat(handle)):
            file.truncate()
            file.write(json.dumps(entry, sort_keys=True).encode())


def _no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def holder(path: Path | None = None) -> str:
    """Return who holds the lock, as far as it is known, as one line for a person."""
    path = path or lock_path()
    entry = _read_holder(path)
    if entry:
        return (
            f"{entry['what']} (process {entry['pid']} of user {entry['user']} in {entry['folder']}, "
            f"since {entry['since']})"
        )
    pids = _holders_by_kernel(path)
    return f"held by process {', '.join(map(str, pids))}" if pids else "held by another process"


def _read_holder(path: Path) -> dict[str, Any]:
    """Return what the living holder wrote, or an empty mapping: anybody may write there, so nothing is believed."""
    try:
        entry = json.loads(path.read_bytes()[:4096])
        known = {name: str(entry[name]) for name in ("pid", "user", "folder", "since", "what")}
        alive = start_ticks(int(entry["pid"])) == int(entry["started"])
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    printable = {name: "".join(c for c in text if c.isprintable()) for name, text in known.items()}
    return (
        printable if alive and int(entry["pid"]) in (_holders_by_kernel(path) or [int(entry["pid"])]) else {}
    )


def _holders_by_kernel(path: Path, locks: Path = Path("/proc/locks")) -> list[int]:
    """Return the processes that hold a lock on the file, as /proc/locks tells them; waiting ones are left out."""
    try:
        inode = path.stat().st_ino
        lines = [line.split() for line in locks.read_text(encoding="ascii").splitlines()]
    except OSError:
        return []
    return [
        int(words[4])
        for words in lines
        if len(words) >= 6 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode)
    ]
