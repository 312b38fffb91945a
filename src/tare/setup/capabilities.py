"""What this machine can do, found out by trying, never by guessing. Standard library only, Python 3.9.

One list for set-up, `make doctor` and the tests: a test may be skipped only for what is found missing here.
"""

from __future__ import annotations

import functools
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.paths import cache_dir
from tare.setup import engine_probe
from tare.worker import nvidia_smi

#: minor version of the interpreter that the stacks' wheels are locked for
HOST_PYTHON = "3.11"
#: an arbitrary ordinary user, for trying things without root when root asks
ORDINARY_UID = 12345
#: kind of machine that envs/native.lock.txt is locked for
COMPILER_MACHINE = "x86_64"
SUBUID = Path("/etc/subuid")


@dataclass(frozen=True)
class Capability:
    """One thing a machine can or cannot do; ``why`` is the evidence, ``remedy`` what would change it."""

    name: str
    ok: bool
    why: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"capability: {self.name}: {self.why}" + (f"; {self.remedy}" if self.remedy else "")


def detect(name: str) -> Capability:
    """Return what is known about a capability of ``NAMES``; tried once per process.

    Raises ``KeyError`` naming the known ones for another name.
    """
    if name not in _PROBES:
        raise KeyError(f"unknown capability {name!r}; allowed: {', '.join(_PROBES)}")
    return _detect(name)


@functools.lru_cache(maxsize=None)
def _detect(name: str) -> Capability:
    ok, why, remedy = _PROBES[name]()
    return Capability(name, ok, why, "" if ok else remedy)


_Answer = tuple[bool, str, str]


def user_name() -> str:
    """Return the effective user's name, or its number when it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _succeeds(argv: Sequence[str], uid: int | None = None) -> tuple[bool, str]:
    """Return whether a command ends well within ten seconds, and its last line of complaint."""
    identity: dict[str, Any] = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=10,
            cwd="/",
            **identity,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return False, str(error)
    complaint = (done.stderr.strip().splitlines() or [f"{argv[0]} ended with status {done.returncode}"])[-1]
    return done.returncode == 0, complaint


def _engine() -> _Answer:
    state = engine_probe.probe()
    if state.answers:
        return True, f"the Docker engine at {state.address} answers", ""
    if state.state == "denied":
        return False, state.detail, "sudo usermod -aG docker $USER, then log in again"
    return False, state.detail, "start one (make study does it for root on Debian and Ubuntu)"


def _root() -> _Answer:
    return os.geteuid() == 0, f"effective user id is {os.geteuid()}", "run it as root"


def _chroot() -> _Answer:
    if os.geteuid() != 0:
        return False, "chroot needs root", "run it as root, or use chroot-userns"
    # A private mount namespace: what is mounted here dies with the child and is seen by nobody else.
    tried = "mount -t tmpfs none /mnt && exec chroot / true"
    ok, complaint = _succeeds(["unshare", "--mount", "--propagation", "private", "sh", "-c", tried])
    why = (
        "a private mount namespace and chroot work"
        if ok
        else f"mounting or chroot is forbidden ({complaint})"
    )
    return ok, why, "give this environment CAP_SYS_ADMIN and CAP_SYS_CHROOT"


def _userns() -> _Answer:
    uid = ORDINARY_UID if os.geteuid() == 0 else None
    ok, complaint = _succeeds(["unshare", "--user", "--map-root-user", "--mount", "true"], uid)
    why = "ordinary users can make user namespaces" if ok else f"user namespaces are forbidden ({complaint})"
    return (
        ok,
        why,
        "sudo sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0",
    )


def _tool(tool: str, package: str) -> Callable[[], _Answer]:
    def probe() -> _Answer:
        found = shutil.which(tool)
        return bool(found), found or f"{tool} is not installed", f"apt-get install {package}"

    return probe


def _drop_caches() -> _Answer:
    path = "/proc/sys/vm/drop_caches"
    try:
        os.close(os.open(path, os.O_WRONLY))  # opening alone drops nothing
    except OSError as error:
        return (
            False,
            f"{path} cannot be written ({error.strerror})",
            "root of the machine itself; else fadvise is used",
        )
    return True, f"{path} is writable", ""


def _chromium() -> _Answer:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    return bool(found), found or "no Chromium is installed", "apt-get install chromium"


def _host_python() -> _Answer:
    path = f"/usr/bin/python{HOST_PYTHON}"
    if not Path(path).exists():
        return False, f"{path} is absent", f"a distribution whose python3 is {HOST_PYTHON} (Debian 12)"
    ok, complaint = _succeeds([path, "-c", "import venv, ensurepip"])
    return (
        ok,
        f"{path} with venv" if ok else f"{path} cannot make a venv ({complaint})",
        "apt-get install python3-venv",
    )


def _hpc_host() -> _Answer:
    tools = ("hpcc", "mpirun", "ioping", "fio", "iperf3")
    missing = [tool for tool in tools if not Path("/usr/bin", tool).exists()]
    why = f"{', '.join(missing)} not installed" if missing else f"{', '.join(tools)} are installed"
    return not missing, why, "apt-get install hpcc libopenblas0-pthread openmpi-bin ioping fio iperf3"


def _ordinary_user() -> _Answer:
    if os.geteuid() != 0:
        return False, "only root can act as another user", "run it as root"
    ok, complaint = _succeeds(["true"], ORDINARY_UID)
    return (
        ok,
        "root can act as an ordinary user" if ok else complaint,
        "give this environment CAP_SETUID, CAP_SETGID",
    )


def _two_cpus() -> _Answer:
    count = len(os.sched_getaffinity(0))
    return count > 1, f"this process may use {count} CPU(s)", "a machine, or a CPU set, of two CPUs or more"


#: what dockerd looks for when it is asked for `--gpus`, and what newer ones read instead
GPU_HOOK = "nvidia-container-runtime-hook"
GPU_SPECIFICATIONS = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")


def _gpu() -> _Answer:
    remedy = "a machine with an NVIDIA GPU and its driver: nvidia-smi must list it"
    try:
        found = nvidia_smi.query(nvidia_smi.IDENTITY)
    except nvidia_smi.SmiError as error:
        return False, f"no NVIDIA GPU here: {error}", remedy
    why = ", ".join(f"{gpu['model']} (driver {gpu['driver']})" for gpu in found)
    return bool(found), why or "no NVIDIA GPU here: nvidia-smi lists none", remedy


def _gpu_containers() -> _Answer:
    gpu = detect("gpu")
    if not gpu.ok:
        return False, gpu.why, gpu.remedy
    found = shutil.which(GPU_HOOK) or next((p for p in GPU_SPECIFICATIONS if Path(p).exists()), None)
    remedy = "install nvidia-container-toolkit (from NVIDIA's package source) and restart the Docker engine"
    return bool(found), found or f"the NVIDIA container toolkit is absent: no {GPU_HOOK}", remedy


def _vxlan() -> _Answer:
    if os.geteuid() != 0:
        return False, "network namespaces joined by a VXLAN need root", "run it as root"
    tried = "ip link add type veth && ip link add type vxlan id 1 dstport 8472 dev lo && ip netns list"
    ok, complaint = _succeeds(["unshare", "--net", "sh", "-c", tried])
    why = "network namespaces, veth and VXLAN work" if ok else f"a VXLAN cannot be made ({complaint})"
    return ok, why, "apt-get install iproute2; modprobe vxlan; give this environment CAP_NET_ADMIN"


def has_subids(user: str) -> bool:
    """Return whether a user was given subordinate ids, whatever program is there to use them."""
    try:
        lines = SUBUID.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.split(":")[0] in (user, str(os.geteuid())) for line in lines)


def _subids() -> _Answer:
    if not shutil.which("newuidmap"):
        return False, "newuidmap is not installed", "apt-get install uidmap"
    user = user_name()
    ok = has_subids(user)
    why = f"subordinate ids for {user}" if ok else f"/etc/subuid has no line for {user}"
    return ok, why, f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"


def _native() -> _Answer:
    lock = Path(__file__).resolve().parents[3] / "envs/native.lock.txt"
    remedy = "make the wheel ziglang reachable: point pip at an index or folder that has it"
    machine = os.uname().machine
    if machine != COMPILER_MACHINE:
        why = f"the C compiler is locked for {COMPILER_MACHINE}, this machine is {machine}"
        return False, why, "name its platform in envs/native.in, then make relock"
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", lock.read_text(encoding="utf-8"))
    if any(any((cache_dir() / "wheels" / sha256).glob("ziglang-*.whl")) for sha256 in hashes):
        return True, "the C compiler's wheel is in the cache", ""
    # Asked of pip as it is configured; downloading the wheel for an answer would take a hundred megabytes.
    ok, complaint = _succeeds([sys.executable, "-m", "pip", "index", "versions", "--quiet", "ziglang"])
    why = "pip finds the C compiler's wheel" if ok else f"pip does not find the wheel ziglang ({complaint})"
    return ok, why, remedy


_PROBES: dict[str, Callable[[], _Answer]] = {
    "engine": _engine,
    "root": _root,
    "chroot": _chroot,
    "userns": _userns,
    "subids": _subids,
    "crun": _tool("crun", "crun"),
    "mmdebstrap": _tool("mmdebstrap", "mmdebstrap"),
    "drop_caches": _drop_caches,
    "chromium": _chromium,
    "host_python": _host_python,
    "hpc_host": _hpc_host,
    "ordinary_user": _ordinary_user,
    "two_cpus": _two_cpus,
    "vxlan": _vxlan,
    "gpu": _gpu,
    "gpu_containers": _gpu_containers,
    "native": _native,
}

#: every capability that can be asked for
NAMES = tuple(_PROBES)
