"""Asking a Docker engine whether it answers, with the standard library only.

The engine must run on this machine: a remote one would compare two machines, not two runtimes.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

DEFAULT_SOCKET = "/var/run/docker.sock"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class EngineState:
    """What became of asking the engine.

    ``state`` is one of ``answers``, ``denied`` (the socket is there, this user may not use it), ``absent``
    (nothing listens) and ``unusable`` (an address that Tare does not use); ``detail`` says why, for a person.
    """

    state: str
    address: str
    detail: str = ""

    @property
    def answers(self) -> bool:
        """True when the engine answered its own health question."""
        return self.state == "answers"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def address(environ: Mapping[str, str]) -> str:
    """Return the engine's address: DOCKER_HOST, else the usual socket."""
    return environ.get("DOCKER_HOST") or f"unix://{DEFAULT_SOCKET}"


def ask(where: str, timeout: float = 5.0) -> EngineState:
    """Return whether the engine at ``where`` (unix://…, or tcp:// of this machine) answers ``/_ping``."""
    try:
        connection = _connection(where, timeout)
    except ValueError as error:
        return EngineState("unusable", where, str(error))
    try:
        connection.request("GET", "/_ping")
        status = connection.getresponse().status
    except PermissionError:
        return EngineState("denied", where, "permission denied on the engine's socket")
    except (OSError, http.client.HTTPException) as error:
        return EngineState("absent", where, f"no engine answers at {where} ({_reason(error)})")
    finally:
        connection.close()
    if status != 200:
        return EngineState("absent", where, f"the engine at {where} answered /_ping with status {status}")
    return EngineState("answers", where)


def probe(environ: Mapping[str, str] | None = None) -> EngineState:
    """Return the state of the engine that this environment names."""
    return ask(address(os.environ if environ is None else environ))


def get_json(where: str, path: str, timeout: float = 5.0) -> Any:
    """Return what the engine answers to ``GET path``, or None when it does not answer with status 200."""
    try:
        connection = _connection(where, timeout)
    except ValueError:
        return None
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return json.loads(response.read()) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def _connection(where: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(where)
    if parts.scheme == "unix":
        return _UnixConnection(parts.path, timeout)
    if parts.scheme == "tcp" and parts.hostname in LOCAL_HOSTS:
        return http.client.HTTPConnection(parts.hostname or "localhost", parts.port or 2375, timeout=timeout)
    raise ValueError(
        f"DOCKER_HOST={where} is not an engine of this machine; allowed: unix://<socket>, "
        "tcp://127.0.0.1:<port>; unset DOCKER_HOST or name the local socket"
    )
