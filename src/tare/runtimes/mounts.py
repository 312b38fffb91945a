"""A root filesystem entered in a private mount namespace, by the system calls themselves.

Called in a forked child only. What is mounted here is seen by nobody else and vanishes with the last process
of the run: no other process can delete the machine's /dev through it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tare.worker.mounts import parse_mountinfo

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000  # sched.h
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8  # sys/mount.h, as are the following
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MS_RELATIME = 1 << 21
MNT_DETACH = 2
#: flags a remount must repeat, as statvfs(3) tells them (all but ST_RELATIME have the bit of their MS_ name)
_KEPT = MS_NOSUID | MS_NODEV | MS_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME

_LIBC = ctypes.CDLL(None, use_errno=True)


def plan(root: str, output: str, data: str | None, new_proc: bool) -> tuple[Mapping[str, Any], ...]:
    """Return the mounts of a run's root filesystem, in order, as data.

    ``new_proc``: mount a fresh /proc; a user namespace may not, it binds the machine's (with all below it).
    """
    proc: dict[str, Any] = (
        {"kind": "proc"} if new_proc else {"kind": "bind", "source": "/proc", "read_only": False}
    )
    mounts: list[dict[str, Any]] = [
        {"kind": "bind", "source": root, "target": root, "read_only": True},
        {**proc, "target": f"{root}/proc"},
        {"kind": "bind", "source": "/sys", "target": f"{root}/sys", "read_only": True},
        {"kind": "bind", "source": "/dev", "target": f"{root}/dev", "read_only": False},
        {"kind": "tmpfs", "target": f"{root}/tmp"},
        {"kind": "bind", "source": output, "target": f"{root}/tare", "read_only": False},
    ]
    if data is not None:
        mounts.append({"kind": "bind", "source": data, "target": f"{root}/data", "read_only": True})
    return tuple(mounts)


def enter(root: str, mounts: Sequence[Mapping[str, Any]], user_namespace: bool) -> None:
    """Go into private namespaces, mount ``mounts`` and make ``root`` this process's root folder.

    Raises ``OSError`` naming the call that failed.
    """
    leave_machine(user_namespace)
    for mount in mounts:
        mount_one(mount)
    os.chroot(root)
    os.chdir("/")


def leave_machine(user_namespace: bool = False) -> None:
    """Go into a private mount namespace: from here on nothing that is mounted can spread to the machine."""
    if user_namespace:
        _enter_user_namespace()
    else:
        _call("unshare(mount namespace)", _LIBC.unshare, CLONE_NEWNS)
    _mount(None, "/", None, MS_REC | MS_PRIVATE)


def hide_unified(point: str = "/sys/fs/cgroup/unified") -> None:
    """Take the version 2 hierarchy beside those of version 1 away: crun refuses this mixture (systemd's hybrid)."""
    if os.path.ismount(point):
        _call(f"unmount {point}", _LIBC.umount2, os.fsencode(point), MNT_DETACH)


def mount_overlay(lower: str, upper: str, work: str, target: str) -> None:
    """Mount an overlay as the engine's driver overlay2 does: a read-only lower folder, a fresh upper one.

    Raises ``OSError``, also where a path has a character that separates an overlay's options.
    """
    for path in (lower, upper, work):
        if set(path) & set(",:\\"):
            raise OSError(
                errno.EINVAL, f"an overlay cannot have a comma, colon or backslash in a path: {path}"
            )
    _mount("overlay", target, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}")


def _enter_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare(user namespace)", _LIBC.unshare, CLONE_NEWUSER | CLONE_NEWNS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def mount_one(mount: Mapping[str, Any]) -> None:
    """Mount one entry of a ``plan``; raises ``OSError`` naming the call that failed."""
    target = str(mount["target"])
    if mount["kind"] == "proc":
        _mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    elif mount["kind"] == "tmpfs":
        _mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    else:
        # Recursive: what lies under a mount is never uncovered, which a user namespace is not allowed to do.
        _mount(str(mount["source"]), target, None, MS_BIND | MS_REC)
        if mount["read_only"]:
            for point in mount_points_below(target):
                _mount(None, point, None, MS_BIND | MS_REMOUNT | MS_RDONLY | _kept_flags(point))


def mount_points_below(folder: str, mountinfo: str = "/proc/self/mountinfo") -> list[str]:
    """Return the mount points at and below ``folder``, each once, in the order of mounting."""
    folder = os.path.realpath(folder)
    told = parse_mountinfo(Path(mountinfo).read_text(encoding="utf-8", errors="surrogateescape"))
    points = (mount.point for mount in told)
    return list(dict.fromkeys(p for p in points if p == folder or p.startswith(f"{folder}/")))


def _kept_flags(point: str) -> int:
    told = os.statvfs(point).f_flag
    return (told & _KEPT) | (MS_RELATIME if told & os.ST_RELATIME else 0)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    what = f"mount {source or kind or 'options'} on {target}"
    _call(what, _LIBC.mount, encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])


def _call(what: str, function: Any, *arguments: Any) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="ascii")
    except OSError as error:
        raise OSError(error.errno, f"write {path}: {error.strerror}") from None
