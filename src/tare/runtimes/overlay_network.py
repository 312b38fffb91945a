"""Two network namespaces that stand for two nodes, joined by a VXLAN over a wire: what flannel's `vxlan` backend makes.

Everything lies inside the two namespaces: the wire (a veth pair, made inside them), the VXLAN devices and all
addresses. Nothing of the machine's own network is changed, and no address can meet one of the machine's.
Made and removed by `ip` of iproute2, as root.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from tare.identity import is_dead, owner_id
from tare.runtimes.base import CLIENT, SERVER

NODES = (SERVER, CLIENT)
FOLDER = Path("/run/netns")  # where `ip netns` keeps names (ip-netns(8))
PREFIX = "tare"
WIRE, OVERLAY = "wire", "overlay"
#: 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544, RFC 6890)
WIRE_ADDRESS = {SERVER: "198.18.0.1", CLIENT: "198.18.0.2"}
OVERLAY_ADDRESS = {SERVER: "198.18.1.1", CLIENT: "198.18.1.2"}
PREFIX_LENGTH = 30
#: flannel's: network 1, UDP port 8472, and 50 bytes of headers taken off the wire's packets
VXLAN_ID, VXLAN_PORT, WIRE_MTU, OVERLAY_MTU = 1, 8472, 1500, 1450
CLONE_NEWNET = 0x40000000  # sched.h

_LIBC = ctypes.CDLL(None, use_errno=True)
_IP_SECONDS = 30


class NetworkError(OSError):
    """The namespaces cannot be made or removed; the message is `ip`'s own, with the command."""


def name(owner: str, node: str) -> str:
    """Return the name of a node's namespace: of the measuring process, so that a dead one's can be told."""
    return f"{PREFIX}-{owner.replace(':', '-')}-{node}"


def owner_of(namespace: str) -> str | None:
    """Return the owner in a namespace's name, None for one that is not ours."""
    match = re.fullmatch(rf"{PREFIX}-([0-9a-f.]+)-(\d+)-(\d+)-({'|'.join(NODES)})", namespace)
    return None if match is None else ":".join(match.group(1, 2, 3))


def commands(owner: str) -> list[list[str]]:
    """Return the arguments of `ip` that make both nodes, in order. Pure."""
    server, client = (name(owner, node) for node in NODES)
    made = [["netns", "add", server], ["netns", "add", client]]
    made += [
        ["link", "add", WIRE, "mtu", str(WIRE_MTU), "netns", server,
         "type", "veth", "peer", "name", WIRE, "mtu", str(WIRE_MTU), "netns", client]
    ]  # fmt: skip
    for node, other in ((SERVER, CLIENT), (CLIENT, SERVER)):
        within = ["-netns", name(owner, node)]
        made += [
            [*within, "link", "set", "lo", "up"],
            [*within, "address", "add", f"{WIRE_ADDRESS[node]}/{PREFIX_LENGTH}", "dev", WIRE],
            [*within, "link", "set", WIRE, "up"],
            [*within, "link", "add", OVERLAY, "mtu", str(OVERLAY_MTU), "type", "vxlan", "id", str(VXLAN_ID),
             "local", WIRE_ADDRESS[node], "remote", WIRE_ADDRESS[other], "dev", WIRE,
             "dstport", str(VXLAN_PORT), "nolearning"],
            [*within, "address", "add", f"{OVERLAY_ADDRESS[node]}/{PREFIX_LENGTH}", "dev", OVERLAY],
            [*within, "link", "set", OVERLAY, "up"],
        ]  # fmt: skip
    return made


def make(owner: str) -> None:
    """Make both nodes; raises ``NetworkError``, and leaves nothing then."""
    try:
        for arguments in commands(owner):
            _ip(arguments)
    except BaseException:
        remove(owner)
        raise


def remove(owner: str) -> None:
    """Remove what ``make`` made, whole or in part; the devices go with their namespaces. Idempotent."""
    for node in NODES:
        if (FOLDER / name(owner, node)).exists():
            with suppress(NetworkError):  # somebody else was faster
                _ip(["netns", "delete", name(owner, node)])


def sweep() -> list[str]:
    """Remove the namespaces of dead measuring processes; return a text for each. Raises ``NetworkError``.

    Only root can, and only root's runs leave some; an empty one takes nothing from other users' runs.
    """
    if os.geteuid() != 0:
        return []
    removed = []
    for path in sorted(FOLDER.glob(f"{PREFIX}-*")):
        owner = owner_of(path.name)
        if owner is not None and is_dead(owner):
            _ip(["netns", "delete", path.name])
            removed.append(f"network namespace {path.name}")
    return removed


def enter(namespace: str) -> None:
    """Move this thread into a namespace, by setns(2): for a forked child. Raises ``OSError``."""
    handle = os.open(FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.setns(handle, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns({namespace}): {os.strerror(number)}")
    finally:
        os.close(handle)


def obstacle() -> tuple[str, str] | None:
    """Return why no overlay can be made here, and the remedy; None when one was made and removed for trial.

    Not while a run of this process uses one: it has the same name.
    """
    if os.geteuid() != 0:
        return "network namespaces joined by a VXLAN need root", "run as root"
    if _program() is None:
        return "ip (iproute2) is not installed", "apt-get install iproute2"
    owner = owner_id()
    try:
        make(owner)
    except (NetworkError, OSError) as error:
        return (
            f"a VXLAN between two network namespaces cannot be made: {error}",
            "modprobe vxlan veth (Debian: in the kernel's own package), with CAP_NET_ADMIN and CAP_SYS_ADMIN",
        )
    remove(owner)
    return None


def _program() -> str | None:
    return shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin")


def _ip(arguments: list[str]) -> None:
    program = _program()
    if program is None:
        raise NetworkError("ip is not installed; apt-get install iproute2")
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_IP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"ip {' '.join(arguments)}: {error}") from None
    if done.returncode != 0:
        said = done.stdout.decode("utf-8", "replace").strip()
        raise NetworkError(f"ip {' '.join(arguments)}: {said or f'status {done.returncode}'}")
