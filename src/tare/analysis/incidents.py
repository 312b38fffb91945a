"""What did not go as planned: runs that failed, were skipped, disturbed or flagged, alike ones told once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tare.analysis.notes import block_list
from tare.analysis.pairing import Row, is_disturbed
from tare.analysis.study_data import StudyData

KINDS = ("failed", "invalid", "skipped", "disturbed", "flagged")
#: kinds whose reasons hold measured values: these are told as a range; an exit status must not become one
_MEASURED = ("disturbed", "flagged")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")


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
    """Incidents of one kind in one cell with one cause; ``runs`` of the cell's ``of`` runs, all attempts counted."""

    kind: str
    cell: str
    runs: int
    of: int
    where: str  # runtimes and blocks, or nothing when every run shares it
    reason: str
    incidents: tuple[Incident, ...]

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
            reason = "; ".join(run["reasons"] or ()) or "no reason recorded"
            grouped[(run["status"], run["cell"], run["runtime"], reason)].append(run["block"])
        for flag in run["flags"] or ():
            kind = "disturbed" if is_disturbed({"flags": [flag]}) else "flagged"
            text = flag.removeprefix("disturbed").lstrip(": ") if kind == "disturbed" else flag
            grouped[(kind, run["cell"], run["runtime"], text or "no reason recorded")].append(run["block"])
    return [
        Incident(kind, cell, runtime, reason, tuple(sorted(set(blocks))), len(blocks))
        for (kind, cell, runtime, reason), blocks in sorted(
            grouped.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1:], item[1])
        )
    ]


def troubles(data: StudyData) -> list[Trouble]:
    """Return the incidents of the study, those of one kind, cell and cause together: worst kinds first."""
    grouped: dict[tuple[str, str, str], list[Incident]] = defaultdict(list)
    for one in incidents(data.runs):
        cause = _NUMBER.sub("#", one.reason) if one.kind in _MEASURED else one.reason
        grouped[(one.kind, one.cell, cause)].append(one)
    of_cell = Counter(run["cell"] for run in data.runs)
    cells = [cell.id for cell in data.study.expand()]
    order = sorted(
        grouped,
        key=lambda key: (
            KINDS.index(key[0]),
            cells.index(key[1]),
            min(min(one.blocks) for one in grouped[key]),
        ),
    )
    return [_trouble(data, grouped[key], of_cell[key[1]]) for key in order]


def _trouble(data: StudyData, found: Sequence[Incident], of: int) -> Trouble:
    runs = sum(one.runs for one in found)
    runtimes = [name for name in data.study.runtimes if any(one.runtime == name for one in found)]
    blocks = block_list([block for one in found for block in one.blocks])
    where = "" if runs == of else f"{', '.join(runtimes)}; {blocks}"
    first = found[0]
    reason = merged([one.reason for one in found])
    return Trouble(first.kind, first.cell, runs, of, where, reason, tuple(found))


def merged(reasons: Sequence[str]) -> str:
    """Return texts that differ only in numbers as one, what differs as a range: ``used 39–50 % of the CPU time``."""
    columns = zip(*(_NUMBER.findall(reason) for reason in reasons), strict=True)
    ranges = []
    for column in columns:
        ordered = sorted(set(column), key=float)
        ranges.append(ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}")
    values = iter(ranges)
    return re.sub(r"(\d)%", r"\1 %", _NUMBER.sub(lambda _: next(values), reasons[0]))
