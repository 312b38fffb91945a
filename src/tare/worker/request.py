"""The request of one run: read and checked before anything is set up."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional

from tare.workloads.declaration import Level, Workload

PROTOCOL = 2


class RequestError(ValueError):
    """A request that cannot be run; the message names the entry, what is allowed and the fix."""


class Request(NamedTuple):
    """One run as the measuring side asks for it; paths as this process sees them."""

    run_id: str
    family: str
    workload: str
    factors: Mapping[str, Level]
    seed: int
    threads: int
    memory_bytes: int
    data: Optional[str]
    output: str
    files: str
    peer: Optional[Mapping[str, Any]]
    handshake: bool


_TYPES: Dict[str, Any] = {
    "run_id": str,
    "family": str,
    "workload": str,
    "factors": dict,
    "seed": int,
    "threads": int,
    "memory_bytes": int,
    "data": (str, type(None)),
    "output": str,
    "files": str,
    "peer": (dict, type(None)),
    "handshake": bool,
}


def read_request(path: str) -> Request:
    """Return the request in the JSON file ``path``; raises ``RequestError``."""
    try:
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
    except (OSError, ValueError) as error:
        raise RequestError("%s cannot be read as JSON (%s)" % (path, error)) from None
    return check_request(raw)


def check_request(raw: Any) -> Request:
    """Return ``raw`` (parsed JSON) as a request; raises ``RequestError``."""
    if not isinstance(raw, dict):
        raise RequestError("the request must be a JSON object, not %s" % type(raw).__name__)
    if raw.get("protocol") != PROTOCOL:
        raise RequestError(
            "protocol: this worker speaks version %d, the request says %r; use the worker wheel of the same Tare"
            % (PROTOCOL, raw.get("protocol"))
        )
    unknown = sorted(set(raw) - set(_TYPES) - {"protocol"})
    missing = sorted(set(_TYPES) - set(raw))
    if unknown or missing:
        raise RequestError("request: missing keys %s, unknown keys %s; see PROTOCOL.md" % (missing, unknown))
    for key, kind in _TYPES.items():
        value = raw[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise RequestError("%s: %r has the wrong type; see PROTOCOL.md" % (key, value))
    request = Request(**{key: raw[key] for key in _TYPES})
    _check_values(request)
    return request


def declared(request: Request) -> Workload:
    """Return what the request's workload declares; imports its family and no other. Raises ``RequestError``."""
    try:
        family = importlib.import_module("tare.workloads." + request.family)
    except ModuleNotFoundError:
        raise RequestError(
            "family: %r is no module of this worker; see PROTOCOL.md" % request.family
        ) from None
    workloads: Dict[str, Workload] = {w.name: w for w in getattr(family, "WORKLOADS", ())}
    if request.workload not in workloads:
        raise RequestError(
            "workload: %r is unknown in family %s; allowed: %s"
            % (request.workload, request.family, ", ".join(sorted(workloads)) or "none")
        )
    return workloads[request.workload]


def _check_values(request: Request) -> None:
    wanted = set(declared(request).factors)
    if set(request.factors) != wanted:
        raise RequestError(
            "factors: %s needs exactly %s, the request has %s"
            % (request.workload, sorted(wanted), sorted(request.factors))
        )
    for key in ("threads", "memory_bytes"):
        if getattr(request, key) < 1:
            raise RequestError("%s: %r must be at least 1" % (key, getattr(request, key)))
    if not os.path.isdir(request.output):
        raise RequestError("output: %s is no folder here; mount it read-write" % request.output)
    if not os.path.isdir(request.files):
        raise RequestError("files: %s is no folder here; mount it read-write" % request.files)
    if request.data is not None and not os.path.isdir(request.data):
        raise RequestError("data: %s is no folder here; mount it read-only" % request.data)
