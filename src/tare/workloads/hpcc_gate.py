"""HPL alone out of hpcc, whose parts can be neither chosen nor reordered: the others get no memory and are left out.

A part of hpcc that cannot have its arrays says so and is passed over. So each rank gets a limit (RLIMIT_DATA) a
little above what it holds when it begins, and the limit is lifted before HPL, the last part. Nothing of the program
is changed, and HPL runs as in any run of hpcc.

Both moments are held by the input file, which is a FIFO here: rank 0 reads it when MPI has started and no part has,
again for the settings of the other parts, and a third time when HPL begins; each time it waits for us.

All ranks ask for arrays of the same size, and the room left to them is either too small for all or enough for all:
were some refused and others not, these would wait for those for ever. Hence the smallest share that is accepted. The
room is what the latency test needs (four messages of 2 MB): it would end the run without it.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import time
from typing import List, Optional

from tare.worker.cgroup import read_text

#: room that is left to a rank, and how many times that its share of the matrix must be at least: the smallest arrays
#: of another part, together, are a quarter of the share
ROOM = 10 << 20
SHARE_OVER_ROOM = 6
#: times that hpcc reads its input; the last is HPL's own
READINGS = 3
_PAUSE = 0.002


class GateError(RuntimeError):
    """The other parts of hpcc could not be kept from running; the message says why."""


def possible(share_bytes: int) -> bool:
    """Return whether the gate can be used for a rank's share of the matrix; if not, all of hpcc runs, and is short."""
    return share_bytes >= SHARE_OVER_ROOM * ROOM


class Gate:
    """One run of hpcc in ``folder``: made before mpirun is started, ``hold`` called right after it."""

    def __init__(self, folder: str, input_name: str, ranks: int) -> None:
        self._fifo, self._ranks = os.path.join(folder, input_name), ranks
        self._renew()

    def hold(self, mpirun: "subprocess.Popen[bytes]", text: str) -> None:
        """Feed the input ``text`` each time it is read, the ranks limited between the first and the last.

        Returns when HPL has its input, or mpirun has ended. Raises ``GateError`` for ranks that cannot be limited.
        """
        ranks: List[int] = []
        for reading in range(READINGS):
            pipe = self._opened(mpirun)
            if pipe is None:
                return
            with os.fdopen(pipe, "wb", buffering=0) as file:
                self._renew()
                if reading == 0:
                    ranks = self._limit(mpirun.pid)
                elif reading == READINGS - 1:
                    for pid in ranks:
                        _set_limit(pid, resource.getrlimit(resource.RLIMIT_DATA)[0])
                file.write(text.encode("ascii"))

    def _renew(self) -> None:
        """Put a new FIFO at the input's place: the next reading is then never taken for the one before."""
        os.mkfifo(self._fifo + ".new", 0o600)
        os.rename(self._fifo + ".new", self._fifo)

    def _opened(self, mpirun: "subprocess.Popen[bytes]") -> Optional[int]:
        """Return the FIFO opened for writing once it is being read, None when mpirun ends first."""
        while mpirun.poll() is None:
            try:
                return os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody reads yet
                    raise
                time.sleep(_PAUSE)
        return None

    def _limit(self, mpirun: int) -> List[int]:
        ranks = children(mpirun, "hpcc")
        if len(ranks) != self._ranks:
            raise GateError(
                "hpl: %d processes hpcc below mpirun, %d are expected: /proc must be mounted and show them"
                % (len(ranks), self._ranks)
            )
        for pid in ranks:
            _set_limit(pid, data_bytes(pid) + ROOM)
        return ranks


def children(parent: int, name: str, proc: str = "/proc") -> List[int]:
    """Return the ids of the processes called ``name`` whose parent is ``parent``."""
    found = []
    for entry in filter(str.isdigit, os.listdir(proc)):
        match = re.match(r"\d+ \((.*)\) \S (\d+) ", read_text(os.path.join(proc, entry, "stat")) or "")
        if match and (match.group(1), int(match.group(2))) == (name, parent):
            found.append(int(entry))
    return sorted(found)


def data_bytes(pid: int, proc: str = "/proc") -> int:
    """Return what counts against RLIMIT_DATA of a process: its private writable memory."""
    status = read_text(os.path.join(proc, str(pid), "status")) or ""
    match = re.search(r"^VmData:\s+(\d+) kB", status, re.MULTILINE)
    if match is None:
        raise GateError("hpl: /proc/%d/status does not tell VmData; mount /proc" % pid)
    return int(match.group(1)) * 1024


def _set_limit(pid: int, soft: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (soft, hard))
    except ProcessLookupError:
        return  # it has ended, and mpirun says how
    except OSError as error:
        raise GateError("hpl: the memory limit of a rank cannot be set: %s" % error.strerror) from None
