"""The peer of a run: a second run of the same runtime that serves it, started before it and ended after it.

The peer is a run like any other (its own folder, request and id, so that whatever ends or sweeps runs finds it),
but no row: it has no numbers. The client's run happens between the peer's ``ready`` and its ``go``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tare.events import Events, judge_events
from tare.processes import RUN_ID
from tare.run import Ended, execute, exit_reasons, prepare_folder
from tare.runtimes.base import CLIENT, SERVER, LaunchSpec, RunRequest, RuntimeClass

ADDRESS = "address.json"
#: how many time-outs of a run the peer may last: its own start, and the client
TIMEOUTS = 2


class PeerError(RuntimeError):
    """The peer did not come to serve, so that there was no run; ``reasons`` are those of the failed row."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = list(reasons)


@dataclass(frozen=True)
class Peer:
    """A peer that has ended. ``reasons``: why the run it served does not count, empty when the peer did its part."""

    events: Events
    failed: bool  # it ended badly, rather than finding its own work invalid
    reasons: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Return what the client's fingerprint says about its peer."""
        end = self.events.end or {}
        return {
            "software": self.events.fingerprint.get("software"),
            "check": (self.events.check or {}).get("facts"),
            "cpu_seconds": end.get("cpu_seconds"),
            "max_rss_bytes": end.get("max_rss_bytes"),
        }


def of(request: RunRequest) -> RunRequest:
    """Return the request of the peer of ``request``: another run, beside it. Pure."""
    run_id = f"{request.run_id}-peer"
    return replace(
        request,
        run_id=run_id,
        output=request.output.with_name(run_id),
        environment={**request.environment, RUN_ID: run_id},
        role=SERVER,
    )


def unreachable(spec: LaunchSpec) -> str | None:
    """Return why no peer can be reached in this runtime, or None."""
    if spec.network != "none":
        return None
    return (
        f"{spec.runtime}: there is no network between two runs of this runtime; "
        "leave it out of this cell's `runtimes:`"
    )


def serve(
    runtime: RuntimeClass,
    request: RunRequest,
    body: Mapping[str, Any],
    wheel: Path,
    native: Path | None,
    client: Callable[[Mapping[str, Any]], Ended],
    *,
    timeout_seconds: float,
    workflow_fd: int | None,
) -> tuple[Ended, Peer]:
    """Run ``client``, which is given the `peer` of its request, while ``request`` serves it; return how both ended.

    ``body`` is the worker's request of the client; the peer's differs in what is its own. Raises ``PeerError``
    when the peer does not come to serve, and whatever ``client`` raises.
    """
    spec = runtime.specify(request)
    bind = {"bind": spec.network}
    own = {
        **body,
        "run_id": request.run_id,
        "output": spec.output,
        "files": spec.files,
        "handshake": True,
        "peer": {"role": SERVER, **bind},
    }
    prepare_folder(request, wheel, own, native)
    served: list[Ended] = []

    def on_ready() -> None:
        served.append(client({"role": CLIENT, **bind, **_address(request.output)}))

    ended = execute(
        runtime,
        request,
        handshake=True,
        on_ready=on_ready,
        timeout_seconds=TIMEOUTS * timeout_seconds,
        workflow_fd=workflow_fd,
    )
    peer = _judge(ended, request.output)
    if not served:
        raise PeerError(peer.reasons or ["peer: it ended before it was ready, without a word"])
    return served[0], peer


def _address(folder: Path) -> dict[str, Any]:
    """Return where the peer is reached, as it says itself."""
    try:
        told = json.loads((folder / ADDRESS).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise PeerError([f"peer: ready, but its {ADDRESS} cannot be read: {error}"]) from None
    if not isinstance(told, dict) or not {"address", "port"} <= set(told):
        raise PeerError([f"peer: its {ADDRESS} names no address and port: {str(told)[:200]}"])
    return told


def _judge(ended: Ended, folder: Path) -> Peer:
    events, found = judge_events(folder / "events.jsonl")
    bad = exit_reasons(ended, folder)
    failed = bool(bad) or events.error is not None or events.end is None
    return Peer(events, failed, tuple(f"peer: {reason}" for reason in [*found, *bad]))
