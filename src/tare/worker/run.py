"""One run from request to events.jsonl."""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from typing import List

from tare.worker import counters, loop, process_facts
from tare.worker.events import Events
from tare.worker.request import Request, declared, read_request
from tare.worker.task import Task

USAGE = "usage: python -m tare.worker <output folder>/request.json"


class HandshakeError(RuntimeError):
    """The measuring side went away instead of giving the go."""


def main(arguments: List[str], started_ns: int) -> int:
    """Run the request named by ``arguments``; return the exit status: 0, or 1 after an ``error`` event, 2 for usage."""
    if len(arguments) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    events = Events()
    events.add("start", ns=started_ns, pid=os.getpid())
    status = 0
    try:
        _run(read_request(arguments[0]), events)
    except BaseException as error:  # also SystemExit of a framework: whatever ends the run is written down
        events.add("error", kind=type(error).__name__, message=str(error), traceback=traceback.format_exc())
        print("%s: %s" % (type(error).__name__, error), file=sys.stderr)
        status = 1
    # Beside the request, which is the output folder: known even when the request cannot be read.
    events.write(os.path.join(os.path.dirname(os.path.abspath(arguments[0])), "events.jsonl"))
    return status


def _run(request: Request, events: Events) -> None:
    adapter = importlib.import_module(declared(request).adapter)
    task: Task = adapter.set_up(request)
    events.add("ready", ns=time.monotonic_ns(), counters=counters.counters())
    if request.handshake:
        _handshake(request.output)
        events.add("go", ns=time.monotonic_ns())
    epochs = loop.measure(task)
    for sample in loop.samples(epochs) if task.timed else task.samples():
        events.add("sample", **sample)
    reasons, facts = task.check()
    events.add("check", ok=not reasons, reasons=reasons, facts=facts)
    # The end comes before the fingerprint is taken, so that reading it is no part of the run's own numbers.
    ended = time.monotonic_ns()
    totals = {
        "counters": counters.counters(),
        "cpu_seconds": counters.cpu_seconds(),
        "max_rss_bytes": counters.max_rss_bytes(),
        "device_read_bytes": counters.device_read_bytes(),
    }
    events.add(
        "fingerprint",
        process=process_facts.process(request.output, request.data, request.files),
        software=task.software(),
        libraries=sorted(set(process_facts.libraries()) | set(task.libraries())),
    )
    events.add("end", ns=ended, leaving_ns=time.monotonic_ns(), **totals)


def _handshake(output: str) -> None:
    # Opening a FIFO waits for the other side; ``ready`` first, as PROTOCOL.md says.
    with open(os.path.join(output, "ready"), "w", encoding="ascii") as ready:
        ready.write("ready\n")
    with open(os.path.join(output, "go"), encoding="ascii") as go:
        if not go.readline().endswith("\n"):
            raise HandshakeError("FIFO go was closed without a line: the measuring side ended or gave up")
