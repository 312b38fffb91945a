"""Under what conditions a study was measured: machines, software by hash, cells with their factors, the config."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tare.analysis import equality
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData
from tare.config import Cell

#: longer values are cut in the report; the tables hold them whole
_LONGEST = 300


@dataclass(frozen=True)
class CellConditions:
    """One cell: what was run, with which settings, when (first and last start, UTC)."""

    id: str
    title: str
    stack: str
    factors: tuple[tuple[str, str], ...]
    dataset: str
    first: str
    last: str
    runs: int


@dataclass(frozen=True)
class SoftwareLine:
    """The software of one stack in one runtime, by hash; several lines when it changed between runs."""

    stack: str
    runtime: str
    image_digest: str
    lock_sha256: str
    worker_sha256: str
    runs: int


def machines(data: StudyData) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (machine_id, facts of the node as dotted name and value) of every machine that ran something."""
    result = []
    for machine in data.machines:
        prints = (
            equality.fingerprint(run["fingerprint"]) for run in data.runs if str(run["machine_id"]) == machine
        )
        node: Mapping[str, Any] = next(
            (one["node"] for one in prints if one and isinstance(one.get("node"), dict)), {}
        )
        nodes = sorted({str(run["node"]) for run in data.runs if str(run["machine_id"]) == machine})
        facts = list(
            flatten({key: value for key, value in node.items() if key not in ("machine_id", "node")})
        )
        result.append((machine, [("nodes (salted hashes)", ", ".join(nodes)), *facts]))
    return result


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield (dotted name, value as text) of a nested mapping, sorted by name; what is not known is left out."""
    for key in sorted(value):
        one, name = value[key], f"{prefix}{key}"
        if isinstance(one, Mapping):
            yield from flatten(one, f"{name}.")
        elif one is not None and one != [] and one != "":
            text = ", ".join(map(str, one)) if isinstance(one, list) else str(one)
            yield name, text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def cells(data: StudyData) -> list[CellConditions]:
    """Return the conditions of every cell of the config, also of those without a run."""
    return [_cell(cell, [run for run in data.runs if run["cell"] == cell.id]) for cell in data.study.expand()]


def _cell(cell: Cell, runs: list[Row]) -> CellConditions:
    starts = sorted(run["started_at"] for run in runs if run["started_at"] is not None)
    shown = [f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in (starts[:1] + starts[-1:])] or [
        "not measured",
        "not measured",
    ]
    return CellConditions(
        id=cell.id,
        title=cell.spec.title,
        stack=cell.stack,
        factors=tuple((name, str(level)) for name, level in sorted(cell.factors.items())),
        dataset=cell.spec.dataset or "none",
        first=shown[0],
        last=shown[-1],
        runs=len(runs),
    )


def control(data: StudyData) -> str:
    """Return which runtime is measured twice: ``chroot``, or ``chroot (in net-tcp, net-latency: host)``."""
    cells_of: dict[str, list[str]] = {}
    for cell in data.cells.values():
        cells_of.setdefault(cell.control, []).append(cell.id)
    usual, *others = sorted(cells_of, key=lambda name: len(cells_of[name]), reverse=True)
    exceptions = "; ".join(f"in {', '.join(cells_of[name])}: {name}" for name in others)
    return f"{usual} ({exceptions})" if exceptions else usual


def software(data: StudyData) -> list[SoftwareLine]:
    """Return the hashes of image, lock and worker by stack and runtime, as the runs recorded them."""
    columns = ("stack", "runtime", "image_digest", "lock_sha256", "worker_sha256")
    counts = Counter(tuple(str(run[name] or "none") for name in columns) for run in data.runs)
    return [
        SoftwareLine(stack, runtime, image, lock, worker, number)
        for (stack, runtime, image, lock, worker), number in sorted(counts.items())
    ]


def config_text(data: StudyData) -> str:
    """Return the whole config, defaults filled in, as JSON, which is YAML too."""
    return json.dumps(data.study.model_dump(mode="json"), indent=2, ensure_ascii=False)
