"""What stands around a run: hidden variables, disks, other containers, the engine itself, kernel mitigations."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from tare.doctor.machine import Finding, Machine, quiet
from tare.worker.mounts import mount_of, read_mounts

HIDDEN = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|GOTO|BLIS|VECLIB|NUMEXPR|TORCH|ONEDNN|DNNL|MXNET|GLIBC|MALLOC|LD|CUDA|NCCL|OMPI)_\w+"
    r"|TF_(NUM|ENABLE|INTRA|INTER|XLA)_\w+|PYTHON\w+"
)
#: those of set-up itself
OURS = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
#: set-up's estimate of the quick study from nothing
DISK_NEEDED = 12 * 10**9


def hidden_variables(machine: Machine) -> Finding:
    """Return the variables that change threads, kernels or allocation behind a program's back."""
    names = sorted(name for name in machine.environ if HIDDEN.fullmatch(name) and name not in OURS)
    value = ", ".join(f"{name}={machine.environ[name]}" for name in names) or "none"
    remedy = f"unset {' '.join(names)} (Tare's runs do not inherit them, other programs do)"
    return quiet("hidden variables", not names, value, "none", remedy)


def preloaded(machine: Machine) -> Finding:
    """Return what /etc/ld.so.preload puts into every host process, and into no container."""
    value = machine.read("/etc/ld.so.preload")
    remedy = "empty /etc/ld.so.preload while measuring: it acts on host runs and not in containers"
    return quiet("/etc/ld.so.preload", not value, value or "none", "none", remedy)


def disk_space(machine: Machine) -> Finding:
    """Return the free room where results and root filesystems go."""
    free = {str(path): shutil.disk_usage(_existing(path)).free for path in (machine.checkout, machine.cache)}
    value = ", ".join(f"{size / 1e9:.0f} GB at {path}" for path, size in free.items())
    remedy = "make room; TARE_CACHE=<folder> moves the root filesystems"
    return quiet(
        "free disk", min(free.values()) >= DISK_NEEDED, value, "12 GB before the first study", remedy
    )


def _existing(path: Path) -> Path:
    while not os.path.exists(path):  # noqa: PTH110 (Path.exists raises where a parent is closed to us)
        path = path.parent
    return path


def file_system(machine: Machine) -> Finding:
    """Return the file system of the results folder; a cold cache and real reads need a local disk."""
    mount = mount_of(os.path.realpath(machine.checkout), read_mounts(str(machine.root)))
    kind = mount.type if mount else "unknown"
    remedy = f"put the checkout on a local disk: on {kind} a cache may stay warm behind the kernel's back"
    return quiet("file system of results", kind in LOCAL, kind, f"a local disk ({', '.join(LOCAL)})", remedy)


def other_containers(machine: Machine) -> Finding:
    """Return the running containers that are not Tare's."""
    if machine.containers is None:
        return quiet("other containers", None, "no engine tells", "none", "")
    value = ", ".join(machine.containers) or "none"
    remedy = f"docker stop {' '.join(machine.containers)} while measuring, if they may stop"
    return quiet("other containers", not machine.containers, value, "none", remedy)


def engine_beside_host(machine: Machine) -> Finding:
    """Return whether an engine stands beside host runs; it does in every block, so no ratio contains it."""
    up = machine.engine.answers
    value = "up, also during host runs: what it costs the machine itself is in no ratio" if up else "down"
    return quiet("engine beside host runs", None, value, "known", "")


def mitigations(machine: Machine) -> Finding:
    """Return this process's seccomp mode and speculation flags (proc_pid_status(5)); host runs inherit them."""
    status = machine.read("/proc/self/status") or ""
    fields = dict(
        re.findall(r"^(Seccomp|Speculation_Store_Bypass|SpeculationIndirectBranch):\t(.+)$", status, re.M)
    )
    value = ", ".join(f"{name} {text}" for name, text in fields.items()) or "not shown"
    fine = None if "Seccomp" not in fields else fields["Seccomp"] == "0"
    remedy = "run outside a container or sandbox: here host runs are filtered too"
    return quiet("seccomp and mitigations", fine, value, "Seccomp 0 on the host", remedy)


def inside_container(machine: Machine) -> Finding:
    """Return whether Tare itself is inside a container: then `host` is that container.

    An engine's marker file alone proves nothing: machines made from an image carry it too. Beside an overlay root
    it does.
    """
    marks = [path for path in ("/.dockerenv", "/run/.containerenv") if machine.at(path).exists()]
    mount = mount_of("/", read_mounts(str(machine.root)))
    inside = bool(marks) and mount is not None and mount.type == "overlay"
    value = f"yes ({marks[0]}, overlay root)" if inside else "no"
    return quiet("inside a container", not inside, value, "no", "run on the machine itself: `host` means it")


def findings(machine: Machine) -> list[Finding]:
    """Return every finding on the surroundings."""
    checks: Iterable[Callable[[Machine], Finding]] = (
        hidden_variables,
        preloaded,
        disk_space,
        file_system,
        other_containers,
        engine_beside_host,
        mitigations,
        inside_container,
    )
    return [check(machine) for check in checks]
