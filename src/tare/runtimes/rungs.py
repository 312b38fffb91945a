"""An OCI specification by features: what the engine tells its runtime, minus what is left out. Pure.

The format is that of the OCI runtime specification 1.0 (config.json). What a feature *is* comes from the engine
(``engine_spec.capture``): nothing here is a copy of a profile. The order is `tare.variants.FEATURES`.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: feature → namespaces it consists of, as far as the engine uses them
NAMESPACES = {"pid": ("pid",), "ipc": ("ipc", "uts"), "network": ("network",), "cgroup": ("cgroup",)}
#: feature → prefixes of the kernel settings that exist per namespace
SYSCTLS = {"network": ("net.",), "ipc": ("kernel.msg", "kernel.shm", "kernel.sem", "fs.mqueue.")}
SHM, CGROUP = "/dev/shm", "/sys/fs/cgroup"
QUOTA_PERIOD_US = 100_000  # the engine's own for a number of CPUs
#: a user namespace in which every id is itself: what it costs to be in one, with the same files and ids
EVERY_ID = {"containerID": 0, "hostID": 0, "size": 4_294_967_295}


@dataclass(frozen=True)
class Options:
    """What is added to the engine's defaults; None or empty: nothing."""

    cap_add: tuple[str, ...] = ()
    cpus: float | None = None
    cpuset: str | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    user_namespace: bool = False


def rung(
    engine: Mapping[str, Any], without: Collection[str] = (), options: Options | None = None
) -> dict[str, Any]:
    """Return the OCI specification of ``engine`` (``engine_spec.capture``) without the features ``without``.

    The root's path, process, output and control group of a run are not in it: they are ``completed``.
    """
    options = options or Options()
    spec: dict[str, Any] = copy.deepcopy(dict(engine["oci"]))
    everything = list(engine["capabilities"])
    _namespaces(spec["linux"], without, options)
    _sysctls(spec["linux"], without)
    spec["mounts"] = _mounts(spec["mounts"], without, options.shm_bytes)
    spec["root"] = {"readonly": "overlay" in without}
    _capabilities(spec["process"]["capabilities"], everything, "capabilities" in without, options.cap_add)
    if "seccomp" in without:
        spec["linux"].pop("seccomp", None)
    if "apparmor" in without:
        spec["process"].pop("apparmorProfile", None)
    _resources(spec["linux"], without, options)
    return spec


def _namespaces(linux: dict[str, Any], without: Collection[str], options: Options) -> None:
    left_out = {name for feature in without for name in NAMESPACES.get(feature, ())}
    linux["namespaces"] = [{"type": name} for name in linux["namespaces"] if name not in left_out]
    if options.user_namespace:
        linux["namespaces"].append({"type": "user"})
        linux["uidMappings"], linux["gidMappings"] = [dict(EVERY_ID)], [dict(EVERY_ID)]


def _sysctls(linux: dict[str, Any], without: Collection[str]) -> None:
    """Leave out settings of a namespace that is the machine's: they would be changed for the whole machine."""
    prefixes = tuple(prefix for feature in without for prefix in SYSCTLS.get(feature, ()))
    kept = {name: value for name, value in linux.pop("sysctl", {}).items() if not name.startswith(prefixes)}
    if kept:
        linux["sysctl"] = kept


def _mounts(
    mounts: Sequence[Mapping[str, Any]], without: Collection[str], shm_bytes: int | None
) -> list[dict[str, Any]]:
    found = []
    for mount in mounts:
        if mount["destination"] == SHM and "ipc" in without:
            found.append(_bind(SHM, SHM, "rw"))  # as the engine does it for the machine's IPC
        elif mount["destination"] == CGROUP and "cgroup" in without:
            found.append(
                _bind(CGROUP, CGROUP, "ro")
            )  # the limits of the group that the run stays in can be read
        elif mount["destination"] == SHM and shm_bytes is not None:
            kept = [option for option in mount["options"] if not option.startswith("size=")]
            found.append({**mount, "options": [*kept, f"size={shm_bytes}"]})
        else:
            found.append(dict(mount))
    if "overlay" in without:  # the root is read-only then, as that of `chroot`
        found.append(_tmpfs("/tmp"))
    return found


def _tmpfs(target: str) -> dict[str, Any]:
    return {
        "destination": target,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "nodev", "mode=1777"],
    }


def _bind(source: str, target: str, access: str) -> dict[str, Any]:
    return {
        "destination": target,
        "type": "bind",
        "source": source,
        "options": ["rbind", "rprivate", access],
    }


def _capabilities(
    sets: dict[str, list[str]], everything: Sequence[str], all_of_them: bool, added: Sequence[str]
) -> None:
    """Fill the sets that the engine fills: for a user other than root those are not effective and permitted."""
    more = [name if name.startswith("CAP_") else f"CAP_{name}" for name in added]
    if all_of_them or "CAP_ALL" in more:
        more = list(everything)
    for name, held in sets.items():
        if held or name == "bounding":
            sets[name] = sorted({*held, *more})


def _resources(linux: dict[str, Any], without: Collection[str], options: Options) -> None:
    """Set the limits of the run's own control group; without one there are none to set."""
    if "cgroup" in without:
        linux.pop("resources", None)
        return
    cpu = linux["resources"].setdefault("cpu", {})
    if options.cpus is not None:
        cpu |= {"quota": round(options.cpus * QUOTA_PERIOD_US), "period": QUOTA_PERIOD_US}
    if options.cpuset is not None:
        cpu["cpus"] = options.cpuset
    if not cpu:
        del linux["resources"]["cpu"]
    if options.memory_bytes is not None:
        linux["resources"].setdefault("memory", {})["limit"] = options.memory_bytes


def completed(
    spec: Mapping[str, Any],
    *,
    root: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    cwd: str,
    user: tuple[int, int],
    mounts: Sequence[Mapping[str, Any]],
    cgroup: str | None,
) -> dict[str, Any]:
    """Return ``spec`` for one run: its root, process, folders (source, target, read_only) and control group."""
    uid, gid = user
    whole: dict[str, Any] = copy.deepcopy(dict(spec))
    whole["root"]["path"] = root
    whole["process"] |= {
        "terminal": False,
        "user": {**whole["process"].get("user", {}), "uid": uid, "gid": gid},
        "args": list(argv),
        "env": [f"{name}={value}" for name, value in environment.items()],
        "cwd": cwd,
    }
    whole["mounts"] += [_bind(m["source"], m["target"], "ro" if m["read_only"] else "rw") for m in mounts]
    if any(namespace["type"] == "uts" for namespace in whole["linux"]["namespaces"]):
        whole["hostname"] = "tare"
    if cgroup is not None:
        whole["linux"]["cgroupsPath"] = cgroup
    return whole
