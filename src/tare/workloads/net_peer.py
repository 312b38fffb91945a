"""What servers of every network tool share: a child process that serves one client, and where it is reached.

The worker is told to go when the client has ended; a server that has not ended by then either is ended.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, Iterator, List, Mapping, Optional

from tare.worker.request import Request
from tare.worker.task import Check, Task

ADDRESS = "address.json"
#: how long a server may take to end by itself once its client has, in seconds
END_SECONDS = 5.0


class PlacementError(ValueError):
    """The CPUs that are asked for are not there; the message says how many there are."""


def ranks(placement: str, cpus: int) -> Dict[str, Optional[int]]:
    """Return role → rank in the affinity mask that its process is bound to, None for the scheduler's choice.

    Raises ``PlacementError`` when two CPUs are asked for and ``cpus`` is one.
    """
    if placement == "apart" and cpus < 2:
        raise PlacementError(
            "placement: apart needs two CPUs, this run may use %d; use placement=together" % cpus
        )
    chosen: Dict[str, Dict[str, Optional[int]]] = {
        "apart": {"client": 0, "server": 1},
        "together": {"client": 0, "server": 0},
        "free": {"client": None, "server": None},
    }
    return chosen[placement]


def publish(output: str, facts: Mapping[str, Any]) -> None:
    """Write where a server is reached (``address``, ``port``, …), whole or not at all."""
    path = os.path.join(output, ADDRESS)
    with open(path + ".tmp", "w", encoding="ascii") as file:
        json.dump(dict(facts), file, sort_keys=True)
    os.replace(path + ".tmp", path)


class Server(Task):
    """A run that serves: its child has been started and listens. It has no numbers of its own."""

    epochs = 1
    timed = False

    def __init__(self, request: Request, words: List[str], pass_fds: List[int]) -> None:
        self.output = request.output
        self.name = os.path.basename(words[0])
        self.forced = False
        with open(self._path("stdout"), "wb") as out, open(self._path("stderr"), "wb") as err:
            self.process = subprocess.Popen(
                words,
                cwd=self.output,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=pass_fds,
            )

    def steps(self, epoch: int) -> Iterator[None]:
        """Wait for the child's end: its client has ended."""
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.forced = True
            self.process.terminate()
            self.process.wait()
        yield

    def check(self) -> Check:
        """Return whether the child served its client and ended well."""
        if self.forced:
            return Check(["%s still waited %g s after its client's end: no client was served to the end"
                          % (self.name, END_SECONDS)], {})  # fmt: skip
        said, status = self.said("stdout"), self.process.returncode
        try:
            printed = json.loads(said)
        except ValueError:
            printed = {}
        error = printed.get("error") or self.said("stderr").strip()
        if status != 0 or error or not printed:
            return Check(["%s ended with status %s: %s" % (self.name, status, error or said[-300:])], {})
        return Check([], self.facts(printed))

    def facts(self, printed: Mapping[str, Any]) -> Dict[str, Any]:
        """Return what is recorded of what the child printed."""
        return {}

    def said(self, stream: str) -> str:
        """Return what the child wrote to `stdout` or `stderr` so far."""
        with open(self._path(stream), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _path(self, stream: str) -> str:
        return os.path.join(self.output, "%s.%s" % (self.name, stream))
