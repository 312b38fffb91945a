"""What did not go as planned: runs that failed, were skipped, disturbed or flagged, alike ones told once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tare.analysis import units
from tare.analysis.notes import block_list
from tare.analysis.pairing import NO_REASON, Row, is_disturbed, reason
from tare.analysis.study_data import StudyData

KINDS = ("failed", "invalid", "skipped", "disturbed", "flagged")
#: kinds whose reasons hold measured values: these are told as a range; an exit status is no measured value
_MEASURED = ("invalid", "disturbed", "flagged")
#: more cells than this are not all named
MOST_CELLS = 3
_NUMBER = re.compile(r"(?<!status )(?<!signal )(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")


@dataclass(frozen=True)
class Incident:
    """Runs of one cell and runtime that share a fate: a status other than ok, or a flag, and the same reason."""

    kind: str
    cell: str
    runtime: str
    reason: str
    blocks: tuple[int, ...]
    runs: int


@dataclass(frozen=True)
class Trouble:
    """Incidents of one kind with one cause; ``runs`` of their cells' ``of`` runs, all attempts counted."""

    kind: str
    cells: tuple[str, ...]
    runs: int
    of: int
    where: str  # runtimes and blocks, or nothing when every run shares it
    reason: str
    incidents: tuple[Incident, ...]

    @property
    def cell(self) -> str:
        """The cells in words: all of a few, of many the first and their number."""
        if len(self.cells) <= MOST_CELLS:
            return units.join(self.cells)
        return f"{', '.join(self.cells[: MOST_CELLS - 1])} and {len(self.cells) - MOST_CELLS + 1} more cells"

    @property
    def words(self) -> str:
        """The trouble without its kind and cell."""
        where = f" ({self.where})" if self.where else ""
        return f"{self.runs} of {self.of} runs{where}, {self.reason}"


def incidents(runs: Iterable[Row]) -> list[Incident]:
    """Return everything that went wrong or was flagged in any run of any attempt, by cell, runtime and reason."""
    grouped: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for run in runs:
        if run["status"] != "ok":
            grouped[(run["status"], run["cell"], run["runtime"], reason(run))].append(run["block"])
        for flag in run["flags"] or ():
            kind = "disturbed" if is_disturbed({"flags": [flag]}) else "flagged"
            text = flag.removeprefix("disturbed").lstrip(": ") if kind == "disturbed" else flag
            grouped[(kind, run["cell"], run["runtime"], text or NO_REASON)].append(run["block"])
    return [
        Incident(kind, cell, runtime, told, tuple(sorted(set(blocks))), len(blocks))
        for (kind, cell, runtime, told), blocks in sorted(
            grouped.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1:], item[1])
        )
    ]


def troubles(data: StudyData) -> list[Trouble]:
    """Return the incidents of the study, those of one kind and cause together: worst kinds first."""
    grouped: dict[tuple[str, str], list[Incident]] = defaultdict(list)
    for one in incidents(data.runs):
        grouped[(one.kind, cause(one.reason) if one.kind in _MEASURED else one.reason)].append(one)
    of_cell = Counter(run["cell"] for run in data.runs)
    cells = list(data.cells)
    order = sorted(
        grouped,
        key=lambda key: (
            KINDS.index(key[0]),
            min((cells.index(one.cell), min(one.blocks)) for one in grouped[key]),
        ),
    )
    return [_trouble(data, grouped[key], of_cell) for key in order]


def _trouble(data: StudyData, found: Sequence[Incident], of_cell: Mapping[str, int]) -> Trouble:
    where_it_is = {one.cell for one in found}
    cells = tuple(cell for cell in data.cells if cell in where_it_is)
    runs, of = sum(one.runs for one in found), sum(of_cell[cell] for cell in cells)
    there = {one.runtime for one in found}
    runtimes = [name for cell in cells for name in data.cells[cell].runtimes if name in there]
    blocks = block_list([block for one in found for block in one.blocks])
    where = "" if runs == of else f"{', '.join(dict.fromkeys(runtimes))}; {blocks}"
    told = merged([one.reason for one in found])
    return Trouble(found[0].kind, cells, runs, of, where, told, tuple(found))


def cause(text: str) -> str:
    """Return a reason without the numbers in it: equal causes of different measured values are equal texts."""
    return _NUMBER.sub("#", text)


def merged(reasons: Sequence[str]) -> str:
    """Return texts that differ only in numbers as one, what differs as a range: ``used 39–50 % of the CPU time``."""
    columns = zip(*map(_NUMBER.findall, reasons), strict=True)
    ranges = []
    for column in columns:
        ordered = sorted(set(column), key=float)
        ranges.append(ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}")
    values = iter(ranges)
    return re.sub(r"(\d)%", r"\1 %", _NUMBER.sub(lambda _: next(values), reasons[0]))
