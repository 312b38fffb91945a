"""Measures one block: takes the machine, runs every slot in its order, judges what came back, writes one file.

Ends with a block file in any case: what could not be run is a row with its reason. Only a dead workflow or a
signal leaves no file, and then nothing half-written either.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tare import machine_lock, peer, progress, records, runtimes, sweep
from tare.cache_level import CacheLevel
from tare.evaluate import evaluate
from tare.ground import BlockRequest, Ground, environment, refusal, survey, worker_request
from tare.order import Slot, slots
from tare.run import WORKFLOW_VARIABLE, Ended, WorkflowGoneError, execute, open_workflow, prepare_folder
from tare.runtimes.base import CLIENT, RunRequest
from tare.software.safe_delete import remove_tree

FREE_BYTES_NEEDED = 512 * 1024**2
DISTURBED = "disturbed"
KEPT = ("stdout.txt", "stderr.txt", "events.jsonl", "request.json")


class DiskFullError(OSError):
    """Too little space to measure a block; the message says how much is needed."""


@dataclass(frozen=True)
class _Block:
    """What every run of one block shares."""

    request: BlockRequest
    ground: Ground
    scratch: Path
    logs: Path
    workflow: int | None


def measure_block(request: BlockRequest, output: Path) -> None:
    """Measure one block and write it to ``output`` (``records.BLOCK``).

    Raises ``WorkflowGoneError`` when the workflow that asked for it dies meanwhile; nothing is written then.
    """
    workflow = open_workflow(os.environ.get(WORKFLOW_VARIABLE))
    with machine_lock.exclusive(f"{request.study}: {request.cell} block {request.block}"):
        for text in sweep.sweep():
            progress.say(f"cleared a leftover of a dead run: {text}")
        _require_disk(output.parent)
        study_folder = output.parent.parent.parent
        started = time.monotonic()
        with _scratch(study_folder / "scratch") as scratch:
            logs = study_folder / "logs" / "runs" / request.cell / str(request.block)
            remove_tree(logs)  # of an earlier measurement of this block, which this one replaces
            rows = _attempts(_Block(request, survey(request), scratch, logs, workflow))
        seconds = time.monotonic() - started
    table = records.table(rows, records.BLOCK)
    stamp = {**(table.schema.metadata or {}), progress.SECONDS_KEY: f"{seconds:.3f}".encode()}
    records.write(table.replace_schema_metadata(stamp), output)
    progress.say_done(output, request.cell, request.block)


def _attempts(block: _Block) -> list[dict[str, Any]]:
    """Return the rows of all attempts. Repeating looks at the machine's counters only, never at what was measured."""
    request = block.request
    rows: list[dict[str, Any]] = []
    for attempt in range(1, request.max_attempts + 1):
        order = slots(request.seed, request.cell, request.block, request.runtimes, request.control)
        new = [_row(block, slot, attempt) for slot in order]
        rows += new
        disturbed = [flag for row in new for flag in row["flags"] if flag.startswith(DISTURBED)]
        if not disturbed:
            break
        again = "measured again" if attempt < request.max_attempts else "kept as it is"
        progress.say(f"{request.cell} block {request.block}: {disturbed[0]}; {again}")
    return rows


def _row(block: _Block, slot: Slot, attempt: int) -> dict[str, Any]:
    row = _new_row(block, slot, attempt)
    try:
        refused = refusal(block.request, block.ground, slot.runtime)
        if refused:
            return row | {"status": refused[0], "reasons": [refused[1]]}
        return row | _run(block, slot, attempt, row["run_id"])
    except WorkflowGoneError:
        raise
    except Exception as error:
        # The harness or the engine failed, not the work: visible as a failed run, the other slots go on.
        return row | {"status": "failed", "reasons": [f"harness: {type(error).__name__}: {error}"]}


def _new_row(block: _Block, slot: Slot, attempt: int) -> dict[str, Any]:
    request, ground = block.request, block.ground
    identity = (
        ground.node["node"],
        request.study,
        request.cell,
        request.block,
        attempt,
        slot.position,
        time.time_ns(),
    )
    return {
        "machine_id": ground.node["machine_id"],
        "node": ground.node["node"],
        "study": request.study,
        "cell": request.cell,
        "workload": request.workload,
        "stack": request.stack,
        "factors": sorted((name, str(level)) for name, level in request.factors.items()),
        "runtime": slot.runtime,
        "role": slot.role,
        "block": request.block,
        "attempt": attempt,
        "position": slot.position,
        "run_id": hashlib.sha256("\0".join(map(str, identity)).encode()).hexdigest()[:16],
        "started_at": datetime.now(UTC),
        "status": "ok",
        "reasons": [],
        "flags": [],
        "image_digest": None if request.base(slot.runtime) == "host" else ground.stack.digest,
        "worker_sha256": ground.worker_sha256,
        "lock_sha256": ground.stack.lock_sha256,
        "samples": [],
    }


def _run(block: _Block, slot: Slot, attempt: int, run_id: str) -> dict[str, Any]:
    """Return what the run adds to its row; nothing of it stays, except what was said where it gave no number."""
    launch = _launch(block, run_id)
    kept = block.logs / f"{attempt}-{slot.position}-{slot.runtime}"
    try:
        values = _outcome(block, slot, launch)
        if values["status"] not in ("ok", "skipped"):
            _keep(launch, kept)
        return values
    except WorkflowGoneError:
        raise
    except Exception:
        _keep(launch, kept)
        raise
    finally:
        remove_tree(launch.output)
        remove_tree(peer.of(launch).output)


def _launch(block: _Block, run_id: str) -> RunRequest:
    request, ground = block.request, block.ground
    owner = sweep.owner_id()
    return RunRequest(
        run_id=run_id,
        study=request.study,
        stack=ground.stack,
        output=block.scratch / run_id,
        data=ground.data,
        worker_wheel=request.wheel.name,
        environment=environment(ground.threads) | {"TARE_RUN_ID": run_id, "TARE_OWNER": owner},
        uid=os.getuid(),
        gid=os.getgid(),
        owner=owner,
        location=request.location,
        gpus=request.spec.gpu,
        role=CLIENT if request.spec.peer else None,
    )


def _outcome(block: _Block, slot: Slot, launch: RunRequest) -> dict[str, Any]:
    """Return what came of one run, which a peer serves where the workload has one."""
    request, ground = block.request, block.ground
    runtime = runtimes.get(slot.runtime, request.variants)
    spec = runtime.specify(launch)
    body = worker_request(request, ground, launch.run_id, spec)
    cache = CacheLevel(request, ground, first=slot.position == 0)
    limits: dict[str, Any] = {"timeout_seconds": request.timeout_seconds, "workflow_fd": block.workflow}

    def start(given: Mapping[str, Any] | None) -> Ended:
        prepare_folder(launch, request.wheel, {**body, "peer": given}, ground.native)
        return execute(runtime, launch, handshake=request.spec.cached, on_ready=cache.set, **limits)

    if not request.spec.peer:
        return evaluate(request, ground, start(None), launch.output, cache)
    if lonely := peer.unreachable(spec):
        return {"status": "skipped", "reasons": [lonely]}
    try:
        ended, served = peer.serve(
            runtime, peer.of(launch), body, request.wheel, ground.native, start, **limits
        )
    except peer.PeerError as error:
        return {"status": "failed", "reasons": error.reasons}
    return evaluate(request, ground, ended, launch.output, cache, served)


def _keep(launch: RunRequest, target: Path) -> None:
    """Keep what a run that gave no number printed, and its peer: it is the evidence for its reason."""
    _keep_output(launch.output, target)
    if peer.of(launch).output.is_dir():
        _keep_output(peer.of(launch).output, target / "peer")


def _keep_output(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, target / name)


def _require_disk(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES_NEEDED:
        raise DiskFullError(
            f"{folder}: {free / 1e6:.0f} MB free, a block needs {FREE_BYTES_NEEDED / 1e6:.0f} MB; "
            "free some space, then start again: finished blocks stay"
        )


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Yield the folder of this block's runs, on the file system of the results; leftovers of dead owners go first.

    The machine lock is held: on this machine no other measuring process of this study is alive.
    """
    host = socket.gethostname()
    for leftover in parent.glob("*"):
        # The whole name: node-1-77 is not of a host called node, and may be alive on a shared file system.
        if re.fullmatch(rf"{re.escape(host)}-\d+", leftover.name):
            remove_tree(leftover)
    scratch = (parent / f"{host}-{os.getpid()}").absolute()
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        remove_tree(scratch)
