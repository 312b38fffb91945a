"""System calls one by one: what the kernel's side of seccomp, mitigations, namespaces and cgroups costs."""

from __future__ import annotations

import statistics
from typing import Any, Dict, Iterator, List, Optional, Sequence

from tare.worker.cgroup import read_text, under
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import native
from tare.workloads.declaration import Factor, Metric, Workload
from tare.workloads.samples import steady, time_reasons

PROGRAM = "syscall"
#: the loop around every operation, with nothing in it: stated, never subtracted
LOOP = "loop"
#: the vDSO answers without a call; at this share of the call's time it must have made one
VDSO_SHARE = 0.75

#: operation of the program → label; one metric each
LABELS = {
    "getpid": "getpid",
    "read": "read 1 byte",
    "write": "write 1 byte",
    "map_fault_unmap": "mmap, page fault, munmap",
    "futex_same_cpu": "futex hand-over, one CPU",
    "futex_two_cpus": "futex hand-over, two CPUs",
    "pipe_same_cpu": "pipe round trip, one CPU",
    "pipe_two_cpus": "pipe round trip, two CPUs",
    "fork_exec": "fork, exec, wait",
    "clock_vdso": "clock_gettime (vDSO)",
    "clock_call": "clock_gettime (system call)",
}
TWO_CPUS = ("futex_two_cpus", "pipe_two_cpus")

WORKLOADS = (
    Workload(
        name="syscall",
        title="system calls",
        stack="hpc",
        adapter=__name__,
        factors={
            "batches": Factor(50, (), "timed batches of each operation, about 2 ms each"),
        },
        metrics=tuple(
            Metric(name + "_seconds", "steady", "s", True, label, optional=name in TWO_CPUS)
            for name, label in LABELS.items()
        ),
        layer="system calls",
        expected_seconds=2.5,
        native=PROGRAM,
    ),
)


class Syscall(Task):
    """One run of the program, which times itself."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.request, self.batches = request, int(request.factors["batches"])
        self.program = native.software(PROGRAM, request)
        self.result: Dict[str, Any] = {}

    def steps(self, epoch: int) -> Iterator[None]:
        """Run the program once."""
        self.result = native.run(self.request, PROGRAM, {"batches": self.batches})
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return seconds for one operation, a sample for each batch."""
        operations = self.result["operations"]
        return [
            sample
            for name in LABELS
            if name in operations
            for sample in steady(name + "_seconds", "s", operations[name]["seconds"])
        ]

    def check(self) -> Check:
        """Return whether every operation was timed, and on what."""
        operations = self.result["operations"]
        loop = statistics.median(operations[LOOP]["seconds"])
        cpus: List[int] = self.result["cpus"]
        facts = {
            "cpus": cpus,
            "cpus_share_core": share_core(cpus),
            "tick_seconds": self.result["tick_ns"] * 1e-9,
            "loop_seconds": loop,
            "batch_operations": {name: operations[name]["size"] for name in operations},
            "vdso_used": vdso_used(operations["clock_vdso"]["seconds"], operations["clock_call"]["seconds"]),
            "work": {"batches": self.batches, "operations": sorted(operations)},
        }
        return Check(reasons(self.result, self.batches), facts)

    def software(self) -> Dict[str, Any]:
        """Return the program's identity."""
        return self.program


def reasons(result: Dict[str, Any], batches: int) -> List[str]:
    """Return why the numbers of a result do not count: absent, too short for the clock, or no more than the loop."""
    found: List[str] = []
    loop = statistics.median(result["operations"][LOOP]["seconds"])
    tick = result["tick_ns"] * 1e-9
    for name in LABELS:
        operation = result["operations"].get(name)
        if operation is None:
            if name not in TWO_CPUS or len(result["cpus"]) > 1:
                found.append("%s: the program did not time it; use the program of this Tare" % name)
            continue
        found += time_reasons(name, operation["seconds"], batches, operation["size"], tick)
        median = statistics.median(operation["seconds"])
        if median <= loop:
            found.append(
                "%s takes %.3g s, the empty loop around it %.3g s: it did nothing" % (name, median, loop)
            )
    return found


def vdso_used(library: Sequence[float], call: Sequence[float]) -> bool:
    """Return whether clock_gettime was answered in user space, by its times (s) and those of the call itself.

    The vDSO makes the call where the clock source cannot be read by a process (anything but tsc and the
    paravirtual clocks); it then takes as long, or longer.
    """
    return statistics.median(library) < VDSO_SHARE * statistics.median(call)


def share_core(cpus: Sequence[int], root: str = "/") -> Optional[bool]:
    """Return whether the first two of ``cpus`` are threads of one core; None for one CPU, or where it is not told."""
    path = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"
    siblings = [read_text(under(root, path % cpu)) for cpu in cpus[:2]]
    return None if len(siblings) < 2 or None in siblings else siblings[0] == siblings[1]


def set_up(request: Request) -> Syscall:
    """Return the run that ``request`` names."""
    return Syscall(request)
