"""What the Docker engine tells its OCI runtime for runtime `docker`: asked of the engine, never copied from a text.

A throw-away container is started with exactly the options of `docker`, and the OCI bundle that the engine gave to
its runtime is read (root only) before the container is removed. What belongs to that one container is left out.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from tare.runtimes import engine
from tare.runtimes.base import LaunchError, RunRequest, Stack, Unavailable
from tare.runtimes.container import DOCKER
from tare.runtimes.container_run import creation, remove

#: where engines keep the bundles of their containers' tasks: containerd's own, or the daemon's private one
STATE_FOLDERS = ("run/containerd", "run/docker/containerd/daemon", "run/snap.docker/containerd/daemon")
BUNDLE = "io.containerd.runtime.*/*/{container}/config.json"
_CAPABILITIES = """
    chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service
    net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct
    sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap
    mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore
"""
#: linux/capability.h, by number
CAPABILITIES = tuple(f"CAP_{name.upper()}" for name in _CAPABILITIES.split())


def capture(image: str, uid: int, gid: int, owner: str) -> dict[str, Any] | Unavailable:
    """Return ``{"oci": …, "capabilities": […]}`` of `docker` for this image and user, or why it cannot be had.

    ``oci`` is normalised (see ``normalised``); ``capabilities`` are all that this machine's root has.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="tare-spec-") as folder:
            raw, shm_bytes = _ask(
                RunRequest(
                    run_id="engine-spec",
                    study="engine-spec",
                    stack=Stack("", image=image),
                    output=Path(folder),
                    data=None,
                    worker_wheel="",
                    environment={},
                    uid=uid,
                    gid=gid,
                    owner=owner,
                )
            )
    except (DockerException, LaunchError, *engine.GONE) as error:
        return Unavailable(
            f"the Docker engine does not start the container whose specification is read: {error}",
            "start the engine and the image by hand to see why: docker run --rm " + image + " true",
        )
    except OSError as error:
        return Unavailable(
            f"the OCI specification that the engine wrote is not readable: {error}",
            "run as root of the machine that the engine runs on (not in a container), or leave the crun runtimes out",
        )
    return {"oci": normalised(raw, shm_bytes), "capabilities": own_capabilities()}


def _ask(request: RunRequest) -> tuple[dict[str, Any], int]:
    """Return the OCI specification as the engine wrote it, and the bytes of /dev/shm that it says it gives."""
    api = engine.api()
    arguments = creation(DOCKER.specify(request), api)
    container = api.create_container(**arguments | {"entrypoint": ["/bin/sleep"], "command": ["60"]})["Id"]
    try:
        api.start(container)
        raw: dict[str, Any] = json.loads(find_bundle(container).read_text(encoding="utf-8"))
        return raw, int(api.inspect_container(container)["HostConfig"]["ShmSize"])
    finally:
        remove(api, container)


def find_bundle(container: str, root: Path = Path("/")) -> Path:
    """Return the config.json of a running container; raises ``FileNotFoundError`` naming where it was looked for."""
    for folder in STATE_FOLDERS:
        for path in (root / folder).glob(BUNDLE.format(container=container)):
            return path
    looked = ", ".join(f"/{folder}" for folder in STATE_FOLDERS)
    raise FileNotFoundError(f"no config.json of container {container[:12]} below {looked}")


def normalised(raw: Mapping[str, Any], shm_bytes: int) -> dict[str, Any]:
    """Return an OCI specification without what belongs to one container.

    Gone are its process, root, name, control group, hooks, annotations and everything bound into it: those are
    the engine's own files (hosts, resolv.conf, init) and ours. Limits of 0 or -1 mean none, and are left out.
    An engine that shares /dev/shm between containers binds it: a file system of ``shm_bytes`` stands for it.
    """
    process, linux = dict(raw["process"]), dict(raw["linux"])
    for name in ("args", "env", "cwd", "terminal", "consoleSize"):
        process.pop(name, None)
    process["capabilities"] = {name: sorted(held or []) for name, held in process["capabilities"].items()}
    linux.pop("cgroupsPath", None)
    linux["namespaces"] = [one["type"] for one in linux["namespaces"]]
    linux["resources"] = _set(linux.get("resources", {}))
    mounts = [dict(mount) for mount in raw["mounts"] if not _bound(mount)]
    if all(mount["destination"] != "/dev/shm" for mount in mounts):
        options = ["nosuid", "noexec", "nodev", "mode=1777", f"size={shm_bytes}"]
        mounts.append({"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": options})
    return {"ociVersion": raw["ociVersion"], "process": process, "mounts": mounts, "linux": linux}


def _bound(mount: Mapping[str, Any]) -> bool:
    options = mount.get("options") or ()
    return mount.get("type") == "bind" or "bind" in options or "rbind" in options


def _set(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that are set, nested ones too."""
    kept = {name: _set(value) if isinstance(value, Mapping) else value for name, value in limits.items()}
    return {name: value for name, value in kept.items() if value not in (None, 0, -1, False, {}, [])}


def own_capabilities(status: Path = Path("/proc/self/status")) -> list[str]:
    """Return the names of the capabilities in this process's bounding set, which a `chroot` run as root has."""
    line = next(
        line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("CapBnd:")
    )
    mask = int(line.split()[1], 16)
    return sorted(name for number, name in enumerate(CAPABILITIES) if mask >> number & 1)
