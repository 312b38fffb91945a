"""Requests of runs as the measuring side writes them, for tests that call an adapter or start the worker themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tare.worker.request import PROTOCOL, Request
from tare.workloads.declaration import Level
from tare.workloads.registry import WORKLOADS, family_of

DEFAULTS: Mapping[str, Level] = {}


def adapter_request(
    workload: str, output: str | Path, factors: Mapping[str, Level] = DEFAULTS, **changed: Any
) -> Request:
    """Return a request for ``workload``: ``factors`` over its default levels, test files in ``output`` itself.

    ``changed``: other entries of the request.
    """
    levels = {name: factor.default for name, factor in WORKLOADS[workload].factors.items()}
    request = Request(
        run_id="r",
        family=family_of(workload),
        workload=workload,
        factors={**levels, **factors},
        seed=5,
        threads=1,
        memory_bytes=10**9,
        data=None,
        output=str(output),
        files=str(output),
        peer=None,
        handshake=False,
    )
    return request._replace(**changed)


def request_body(request: Request) -> dict[str, Any]:
    """Return what ``request.json`` holds."""
    return {"protocol": PROTOCOL, **request._asdict()}
