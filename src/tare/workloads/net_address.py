"""The one concrete address an end of a connection is bound to, found without looking up any name."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import List, Set

LOOPBACK = "127.0.0.1"
#: ioctl(2): the IPv4 address and the flags of an interface (linux/sockios.h, netdevice(7))
_SIOCGIFADDR, _SIOCGIFFLAGS = 0x8915, 0x8913
_IFF_UP, _IFF_LOOPBACK = 0x1, 0x8
#: state of a listening socket in /proc/net/tcp (include/net/tcp_states.h)
_LISTEN = "0A"


class AddressError(OSError):
    """No address to bind to; the message says which interface was looked at."""


def local_address(bind: str) -> str:
    """Return the IPv4 address that ``bind`` names: `loopback`, `interface` or `interface:<name>`.

    `interface` is the first one, by number, that is up, no loopback and has an address. Raises ``AddressError``.
    """
    if bind == "loopback":
        return LOOPBACK
    kind, _, wanted = bind.partition(":")
    if kind != "interface":
        raise AddressError("bind: %r is not known; allowed: loopback, interface, interface:<name>" % bind)
    names = [name for _, name in sorted(socket.if_nameindex()) if not wanted or name == wanted]
    for name in names:
        address = _address(name, loopback=bool(wanted))
        if address:
            return address
    raise AddressError(
        "no interface with an IPv4 address (looked at: %s); this runtime has no network that a peer could use"
        % (", ".join(names) or "none")
    )


def _address(interface: str, loopback: bool) -> str:
    """Return the address of an interface that is up, or an empty text."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            flags = struct.unpack("H", fcntl.ioctl(probe, _SIOCGIFFLAGS, request)[16:18])[0]
            if not flags & _IFF_UP or (flags & _IFF_LOOPBACK and not loopback):
                return ""
            return socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24])
        except OSError:
            return ""  # it has no IPv4 address


def free_port(address: str) -> int:
    """Return a TCP port that is free now; somebody else may take it before it is used."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(pid: int, address: str, port: int) -> bool:
    """Return whether this very process listens there, without connecting to it."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        table = file.read()
    return bool(set(listening_inodes(table, address, port)) & _socket_inodes(pid))


def listening_inodes(table: str, address: str, port: int) -> List[str]:
    """Return the inodes of the sockets that listen at an address, from the text of /proc/net/tcp (proc(5))."""
    # The kernel prints the address as one number in the machine's byte order.
    wanted = "%08X:%04X" % (struct.unpack("=I", socket.inet_aton(address))[0], port)
    rows = (line.split() for line in table.splitlines()[1:])
    return [row[9] for row in rows if len(row) > 9 and row[1] == wanted and row[3] == _LISTEN]


def _socket_inodes(pid: int) -> Set[str]:
    folder = "/proc/%d/fd" % pid
    found = set()
    try:
        for name in os.listdir(folder):
            target = os.readlink(os.path.join(folder, name))
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    except OSError:
        pass  # it has ended, or closed the descriptor in between
    return found
