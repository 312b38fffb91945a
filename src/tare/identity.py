"""Who measures, and where: the node's id, the owner of a run, and whether an owner still lives.

No name leaves the machine: the host name is hashed with a secret of the machine, so it cannot be read back
from a table, not even by trying likely names.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from tare.paths import cache_dir

MACHINE_ID = Path("/etc/machine-id")
#: inode of the first PID namespace of a Linux kernel (include/linux/proc_ns.h: PROC_PID_INIT_INO)
FIRST_PID_NAMESPACE = 0xEFFFFFFC


def node_id() -> str:
    """Return 16 hex digits for this node: the host name hashed with the machine's secret.

    The secret is /etc/machine-id (systemd asks programs to publish only hashes of it), which every user and
    every process of a node shares; where it is absent or empty, a random one kept in ``cache_dir()``.
    """
    return _node_id(socket.gethostname(), _secret(MACHINE_ID, cache_dir() / "node-secret"))


@functools.lru_cache(maxsize=4)
def _node_id(host_name: str, secret: str) -> str:
    return hashlib.sha256(f"tare node\0{secret}\0{host_name}".encode()).hexdigest()[:16]


def _secret(machine_id: Path, fallback: Path) -> str:
    with suppress(OSError):
        text = machine_id.read_text(encoding="ascii", errors="replace").strip()
        if re.fullmatch(r"[0-9a-f]{32}", text):
            return text
    return _stored_secret(fallback)


def _stored_secret(path: Path) -> str:
    """Return the secret in ``path``; the first process makes it, and a rival's is taken over."""
    with suppress(FileNotFoundError):
        return path.read_text(encoding="ascii")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(secrets.token_hex(16), encoding="ascii")
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text(encoding="ascii")


def host_part() -> str:
    """Return the first part of an owner: the node, and the PID namespace where it is not the machine's own.

    A process number means nothing in another namespace: an owner there is never taken for dead here.
    """
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    return node_id() if namespace == FIRST_PID_NAMESPACE else f"{node_id()}.{namespace}"


def start_ticks(pid: int) -> int | None:
    """Return when a process started (clock ticks since boot, field 22 of /proc/<pid>/stat), None if not told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def owner_id(pid: int | None = None) -> str:
    """Return ``<host>:<pid>:<start time in ticks>`` of a process, by default this one.

    Raises ``ProcessLookupError`` when there is no such process.
    """
    pid = os.getpid() if pid is None else pid
    started = start_ticks(pid)
    if started is None:
        raise ProcessLookupError(f"no process {pid} to own a run")
    return f"{host_part()}:{pid}:{started}"


def is_dead(owner: str) -> bool:
    """Return True only for an owner of this host whose process is certainly gone.

    An owner of another host, a text that is not an owner and a process that hides itself count as living.
    """
    match = re.fullmatch(r"([0-9a-f.]+):(\d+):(\d+)", owner)
    if match is None or match[1] != host_part():
        return False
    pid, started = int(match[2]), int(match[3])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    now = start_ticks(pid)
    return now is not None and (now != started or _is_zombie(pid))


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[0] in ("Z", "X")
    return False
