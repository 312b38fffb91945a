"""The ``process`` part of a fingerprint: what surrounds this process and could explain a difference of speed.

Everything is read, nothing is changed; what the kernel does not tell is None.
"""

from __future__ import annotations

import os
import re
import resource
import stat
import sys
import sysconfig
from typing import Any, Dict, List, Optional

from tare.worker.cgroup import membership, read_text, under
from tare.worker.cpus import effective_cpus, quota_cpus
from tare.worker.mounts import Mount, mount_at, mount_of, read_mounts

STATUS_FIELDS = (
    "Seccomp",
    "Speculation_Store_Bypass",
    "SpeculationIndirectBranch",
    "CapEff",
    "NoNewPrivs",
)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
#: options of an overlay that name its layers: other paths for every container, no other behaviour
_LAYERS = ("lowerdir=", "upperdir=", "workdir=")


def initial_environment(path: str = "/proc/self/environ") -> Dict[str, str]:
    """Return the environment this process was started with.

    Not ``os.environ``: a framework that sets a variable for itself, by the user's name say, was not given it.
    """
    with open(path, "rb") as file:
        entries = file.read().decode("utf-8", "surrogateescape").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def process(output: str, data: Optional[str], files: Optional[str] = None, root: str = "/") -> Dict[str, Any]:
    """Return the ``process`` object of the protocol; ``output``, ``data`` and ``files`` are the run's folders."""
    return {
        "interpreter": interpreter(),
        "glibc": os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None,
        "kernel": os.uname().release,
        "affinity": sorted(os.sched_getaffinity(0)),
        "quota_cpus": quota_cpus(root),
        "effective_cpus": effective_cpus(root),
        "cgroup": membership(root),
        "ulimits": ulimits(),
        "shm": shared_memory(),
        "status": status(read_text(under(root, "/proc/self/status")) or ""),
        "mounts": mounts({"/": "/", "output": output, "data": data, "files": files}, root),
        "files_upper": upper_folder(files, root),
        "huge_pages": huge_pages(root),
        "clock_source": _line(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "namespaces": namespaces(),
        "environment": initial_environment(),
        "uid": os.getuid(),
        "gid": os.getgid(),
    }


def interpreter() -> Dict[str, Any]:
    """Return version and build of this interpreter; builds without PGO or LTO are a known cause of slowness."""
    keys = ("CONFIG_ARGS", "CFLAGS", "OPT", "LDFLAGS")
    built = {key: sysconfig.get_config_var(key) for key in keys}
    text = " ".join(str(value) for value in built.values())
    return {
        "implementation": sys.implementation.name,
        "version": sys.version,
        "pgo": "--enable-optimizations" in text or "-fprofile-use" in text,
        "lto": "--with-lto" in text or "-flto" in text,
        **built,
    }


def ulimits() -> Dict[str, List[Any]]:
    """Return limit → [soft, hard], ``"unlimited"`` where there is none."""
    found = {}
    for name in sorted(key for key in dir(resource) if key.startswith("RLIMIT_")):
        limits = resource.getrlimit(getattr(resource, name))
        found[name[len("RLIMIT_") :].lower()] = [
            "unlimited" if limit == resource.RLIM_INFINITY else limit for limit in limits
        ]
    return found


def shared_memory(path: str = "/dev/shm") -> Dict[str, Any]:
    """Return size, free bytes and file system of the shared memory folder; ``bytes`` is None where it is absent."""
    try:
        size = os.statvfs(path)
    except OSError:
        return {"bytes": None, "free_bytes": None, "type": None}
    mount = mount_at(path)
    return {
        "bytes": size.f_frsize * size.f_blocks,
        "free_bytes": size.f_frsize * size.f_bavail,
        "type": mount.type if mount else None,
    }


def status(text: str) -> Dict[str, Optional[str]]:
    """Return the security fields of /proc/self/status; None for those this kernel does not print."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: fields[name].strip() if name in fields else None for name in STATUS_FIELDS}


def mounts(paths: Dict[str, Optional[str]], root: str = "/") -> Dict[str, Optional[Dict[str, str]]]:
    """Return name → the mount each path lies on, None for a path that is None or on no visible mount."""
    table = read_mounts(root)
    found = {name: mount_of(os.path.realpath(path), table) if path else None for name, path in paths.items()}
    return {name: _describe(mount) if mount else None for name, mount in found.items()}


def upper_folder(path: Optional[str], root: str = "/") -> Optional[str]:
    """Return the folder that takes the writes to the overlay ``path`` lies on, by its name outside of it, else None.

    The overlay's own device is made up; what is written lies on the device of this folder.
    """
    mount = mount_at(path, root) if path else None
    if mount is None or mount.type != "overlay":
        return None
    options = dict(option.partition("=")[::2] for option in mount.super_options.split(","))
    return options.get("upperdir")


def _describe(mount: Mount) -> Dict[str, str]:
    options = [option for option in mount.super_options.split(",") if not option.startswith(_LAYERS)]
    return {
        "type": mount.type,
        "source": mount.source,
        "device": mount.device,
        "options": mount.options,
        "super_options": ",".join(options),
    }


def huge_pages(root: str = "/") -> Dict[str, Any]:
    """Return the transparent huge page modes chosen, and the number of free huge pages."""
    folder = "/sys/kernel/mm/transparent_hugepage/"
    free = re.search(r"^HugePages_Free:\s+(\d+)", read_text(under(root, "/proc/meminfo")) or "", re.MULTILINE)
    return {
        "enabled": _chosen(read_text(under(root, folder + "enabled"))),
        "defrag": _chosen(read_text(under(root, folder + "defrag"))),
        "free": int(free.group(1)) if free else None,
    }


def _chosen(text: Optional[str]) -> Optional[str]:
    match = re.search(r"\[(\S+)\]", text or "")
    return match.group(1) if match else None


def _line(root: str, path: str) -> Optional[str]:
    text = read_text(under(root, path))
    return text.strip() if text is not None else None


def namespaces() -> Dict[str, Optional[str]]:
    """Return namespace → its identity on this kernel, e.g. ``net:[4026531840]``."""
    found: Dict[str, Optional[str]] = {}
    for name in NAMESPACES:
        try:
            found[name] = os.readlink("/proc/self/ns/" + name)
        except OSError:
            found[name] = None
    return found


def libraries(maps: Optional[str] = None) -> List[str]:
    """Return the regular files mapped into this process (``maps``: text of /proc/self/maps), sorted."""
    text = read_text("/proc/self/maps") if maps is None else maps
    paths = {line.split(None, 5)[5] for line in (text or "").splitlines() if len(line.split(None, 5)) == 6}
    return sorted(path for path in paths if path.startswith("/") and _regular(path))


def _regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # deleted since, or shared memory with a made-up name
        return False
