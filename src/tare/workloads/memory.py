"""What memory costs before it is used: page faults with and without huge pages, unmapping, fork of a large process."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from tare.worker.cgroup import read_text
from tare.worker.process_facts import huge_pages
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import native
from tare.workloads.declaration import Factor, Metric, Workload
from tare.workloads.samples import rates, steady, time_reasons

PROGRAM = "memory"
ROUNDS = 10
DEFAULT_BYTES = 128 << 20
#: the forked process, its page tables and the kernel's own need room beside the region
MEMORY_SHARE = 0.5
#: faults beyond the pages touched (stack, heap, the clock's page), as a share and at least so many
SURPLUS_SHARE, SURPLUS_FAULTS = 0.001, 16
#: the usual size of a huge page
HUGE_BYTES = 2 << 20

WORKLOADS = (
    Workload(
        name="memory",
        title="memory: page faults and fork",
        stack="hpc",
        adapter=__name__,
        factors={
            "bytes": Factor(DEFAULT_BYTES, (), "size of the memory touched and forked; a multiple of 2 MiB"),
        },
        metrics=(
            Metric("page_fault_rate", "steady", "fault/s", False, "page faults (base pages)"),
            Metric(
                "first_touch", "steady", "B/s", False, "first touch, huge pages as configured", optional=True
            ),
            Metric(
                "first_touch_huge", "steady", "B/s", False, "first touch, huge pages asked for", optional=True
            ),
            Metric("unmap_rate", "steady", "page/s", False, "munmap of touched pages"),
            Metric("fork_seconds", "steady", "s", True, "fork of a large process"),
        ),
        layer="memory",
        expected_seconds=2.5,
        native=PROGRAM,
    ),
)


class SizeError(RuntimeError):
    """The memory asked for cannot be measured here; the message names the factor, what is allowed and the fix."""


class Touched(NamedTuple):
    """A region's first touch, round by round: seconds, and the page faults counted."""

    seconds: Sequence[float]
    faults: Sequence[int]


class Memory(Task):
    """One run of the program, which times itself."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.request, self.bytes = request, int(request.factors["bytes"])
        check_size(self.bytes, request.memory_bytes)
        self.huge_bytes = huge_page_bytes(self.bytes)
        self.program = native.software(PROGRAM, request)
        self.enabled: Optional[str] = huge_pages()["enabled"]
        self.result: Dict[str, Any] = {}

    def steps(self, epoch: int) -> Iterator[None]:
        """Run the program once."""
        arguments = {"bytes": self.bytes, "huge-bytes": self.huge_bytes, "rounds": ROUNDS}
        self.result = native.run(self.request, PROGRAM, arguments)
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return rates and times, a sample a round; of first touches only those whose page size is the expected one."""
        pages = self.bytes // self.result["page_bytes"]
        base, found = self._touched("touch_base"), []
        found += steady("page_fault_rate", "fault/s", rates(pages, base.seconds))
        for metric, series in (("first_touch", "touch_default"), ("first_touch_huge", "touch_huge")):
            touched = self._touched(series)
            if self._page_bytes(touched) == self._expected(series):
                found += steady(metric, "B/s", rates(self.bytes, touched.seconds))
        found += steady("unmap_rate", "page/s", rates(pages, self.result["unmap_base"]["seconds"]))
        return found + steady("fork_seconds", "s", self.result["fork_base"]["seconds"])

    def check(self) -> Check:
        """Return whether each page touched was a page fault, and which pages the kernel gave."""
        base = self._touched("touch_base")
        pages, tick = self.bytes // self.result["page_bytes"], self.result["tick_ns"] * 1e-9
        reasons = fault_reasons(base.faults, pages)
        for series in ("touch_base", "unmap_base", "fork_base", "touch_default", "touch_huge"):
            reasons += time_reasons(series, self.result[series]["seconds"], ROUNDS, 1, tick)
        facts = {
            "cpu": self.result["cpu"],
            "tick_seconds": tick,
            "faults_expected": pages,
            "faults": list(base.faults),
            "first_touch_page_bytes": self._page_bytes(self._touched("touch_default")),
            "first_touch_huge_page_bytes": self._page_bytes(self._touched("touch_huge")),
            "huge_pages_enabled": self.enabled,
            "work": {"bytes": self.bytes, "rounds": ROUNDS, "page_bytes": self.result["page_bytes"]},
        }
        return Check(reasons, facts)

    def software(self) -> Dict[str, Any]:
        """Return the program's identity."""
        return self.program

    def _touched(self, series: str) -> Touched:
        return Touched(self.result[series]["seconds"], self.result[series]["faults"])

    def _page_bytes(self, touched: Touched) -> Optional[int]:
        return page_bytes(touched.faults, self.bytes, (self.result["page_bytes"], self.huge_bytes))

    def _expected(self, series: str) -> int:
        """Return the page size that a first touch is compared with: another one is memory in another state."""
        huge = series == "touch_huge" or self.enabled == "always"
        return self.huge_bytes if huge else int(self.result["page_bytes"])


def check_size(size: int, memory_bytes: int) -> None:
    """Raise ``SizeError`` for a size that is no multiple of 2 MiB, or needs more memory than there is."""
    if size % HUGE_BYTES:
        raise SizeError("bytes: %d is no multiple of %d (2 MiB); choose one" % (size, HUGE_BYTES))
    if size > MEMORY_SHARE * memory_bytes:
        raise SizeError(
            "bytes: %d is more than half of the %d bytes this run may use; choose less, or raise the memory limit"
            % (size, memory_bytes)
        )


def huge_page_bytes(size: int, path: str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") -> int:
    """Return the size of the transparent huge pages that ``size`` bytes can be made of.

    2 MiB where the kernel has none, or where one is larger than fits (512 MiB with base pages of 64 KiB): no region
    is then found to be made of them, and there is no number for huge pages.
    """
    text = (read_text(path) or "").strip()
    told = int(text) if text.isdigit() else HUGE_BYTES
    return HUGE_BYTES if size % told else told


def page_bytes(faults: Sequence[int], size: int, kinds: Sequence[int]) -> Optional[int]:
    """Return which of ``kinds`` of pages (bytes) a region of ``size`` bytes got in every round, None for a mixture.

    A fault more or less than the pages says nothing (stack, heap); huge pages are few, so that one of them missing
    is hundreds of faults more.
    """
    for kind in kinds:
        pages = size // kind
        if all(pages <= count <= pages + _surplus(pages) for count in faults):
            return kind
    return None


def fault_reasons(faults: Sequence[int], pages: int) -> List[str]:
    """Return why rounds of touching ``pages`` fresh pages do not count: the kernel counted other faults than those."""
    wrong = [count for count in faults if not pages <= count <= pages + _surplus(pages)]
    if not wrong:
        return []
    return [
        "%d page faults were counted for %d pages (up to %d are expected) in %d of %d rounds: the kernel did not "
        "give one page a fault; look at huge pages and at the memory limit"
        % (wrong[0], pages, pages + _surplus(pages), len(wrong), len(faults))
    ]


def _surplus(pages: int) -> int:
    return max(SURPLUS_FAULTS, int(pages * SURPLUS_SHARE))


def set_up(request: Request) -> Memory:
    """Return the run that ``request`` names."""
    return Memory(request)
