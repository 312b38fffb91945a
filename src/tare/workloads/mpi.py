"""Open MPI on one machine, the same in every runtime, whatever that runtime forbids.

Ranks talk through shared memory without a single-copy mechanism unless asked otherwise (containers forbid it: the
copies fail, the numbers come nevertheless, open-mpi/ompi#4948); no launcher, no name look-up, no network but
loopback; what is written lies in the output folder. That Open MPI warns in a container of a failure "to bind
memory" has no effect: what it failed to set is the kernel's default policy.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Dict, List, Optional

from tare.workloads.tool import PATH

#: room in /dev/shm for each rank: its 4 MiB segment (Open MPI 4's vader) and as much again
SHM_PER_RANK = 8 << 20

#: levels of factor `single_copy`
SINGLE_COPY = ("none", "cma", "possible")
#: by which mechanism a rank takes a message out of another's memory
SINGLE_COPY_VARIABLE = "OMPI_MCA_btl_vader_single_copy_mechanism"


class MpiError(RuntimeError):
    """MPI cannot be run here; the message gives the limit and the fix."""


def placement(ranks: int) -> List[str]:
    """Return mpirun's options for ``ranks`` ranks: one a core as long as there are cores, then several.

    Naming this machine with a number of slots, not leaving it to what MPI counts as CPUs, keeps the ranks from
    yielding to each other as they do when there are more of them than slots.
    """
    host = ["--host", "localhost:%d" % ranks, "-np", str(ranks)]
    return [*host, "--map-by", "core", "--bind-to", "core:overload-allowed", "--report-bindings"]


def environment(output: str, uid: int) -> Dict[str, str]:
    """Return the variables that mpirun and its ranks get beside the worker's own."""
    variables = {
        "PATH": os.environ.get("PATH", PATH),
        "HOME": output,
        "TMPDIR": os.path.join(output, "mpi"),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_VERBOSE": "2",
        "OMPI_MCA_orte_tmpdir_base": os.path.join(output, "mpi"),
        "OMPI_MCA_btl": "self,vader",
        "OMPI_MCA_pml": "ob1",
        SINGLE_COPY_VARIABLE: "none",
        "OMPI_MCA_plm": "isolated",
        "OMPI_MCA_oob_tcp_if_include": "lo",
        "OMPI_MCA_mpi_yield_when_idle": "0",
    }
    if uid == 0:  # mpirun refuses root otherwise (open-mpi/ompi#4451)
        variables.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return variables


def chosen_single_copy(level: str) -> str:
    """Return the mechanism for a level of factor `single_copy`: itself, or for `possible` what this runtime allows."""
    if level != "possible":
        return level
    return "cma" if single_copy_works() else "none"


class _Span(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def single_copy_works() -> bool:
    """Return whether one process may read another's memory here, by trying: process_vm_readv(2), a child from this one.

    A rank is no descendant of another, nor is this process of its child: where only ancestors may, it says no.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    here, there = ctypes.create_string_buffer(b"single copy"), ctypes.create_string_buffer(12)
    spans = [_Span(ctypes.addressof(one), len(one)) for one in (there, here)]
    parent, child = os.getpid(), os.fork()
    if child == 0:
        libc.process_vm_readv(
            ctypes.c_int(parent),
            ctypes.byref(spans[0]),
            ctypes.c_ulong(1),
            ctypes.byref(spans[1]),
            ctypes.c_ulong(1),
            ctypes.c_ulong(0),
        )
        os._exit(0 if there.raw == here.raw else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def check_shared_memory(ranks: int, free: Optional[int]) -> None:
    """Raise ``MpiError`` unless /dev/shm has room for the ranks' segments; ``free`` bytes, None where it is absent."""
    needed = ranks * SHM_PER_RANK
    if free is None or free < needed:
        raise MpiError(
            "shm-too-small: %d ranks need %d bytes free in /dev/shm, there are %s; "
            "use fewer threads, or a larger /dev/shm in every runtime alike" % (ranks, needed, free)
        )


def stderr_reasons(stderr: str) -> List[str]:
    """Return what is wrong by the standard error of mpirun: failed copies between ranks (open-mpi/ompi#4948)."""
    copies = re.findall(r"Read -?\d+, expected \d+, errno = \d+", stderr)
    if copies:
        return ["MPI: %d failed copies between ranks, first: %s" % (len(copies), copies[0])]
    return []


def bindings(stderr: str) -> List[str]:
    """Return the CPUs each rank was bound to, as mpirun reports them; host name and process id left out."""
    return sorted(re.findall(r"MCW (rank \d+ .*)$", stderr, re.MULTILINE))
