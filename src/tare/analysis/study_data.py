"""All that figures and report draw from: the config and the three tables of one study."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from tare import records
from tare.analysis import equality, verdict
from tare.analysis.contrasts import RUNTIME, Attempts, Place, by_place, evidence
from tare.analysis.pairing import CONTROL, Attempt, Evidence, Row, Values, attempts, summaries
from tare.config import Cell, Study
from tare.workloads.declaration import LAYERS, Metric
from tare.workloads.registry import WORKLOADS

#: the total leads, isolation explains it; other pairs follow as the study lists them
_LEADING = (("docker", "host"), ("docker", "chroot"))


@dataclass(frozen=True)
class StudyData:
    """One study as the tables tell it. ``partial`` says that blocks are still missing on purpose (``make report``)."""

    study: Study
    runs_table: pa.Table
    samples: pa.Table
    comparisons: list[Row]
    partial: bool = False

    @classmethod
    def load(cls, study: Study, runs: Path, samples: Path, comparisons: Path) -> StudyData:
        """Return the study from its table files; raises ``RecordError`` for one that cannot be read."""
        return cls(
            study,
            records.read(runs, records.RUNS),
            records.read(samples, records.SAMPLES),
            records.read(comparisons, records.COMPARISONS).to_pylist(),
        )

    @classmethod
    def of_rule(cls, snakemake: Any) -> StudyData:
        """Return the study of a rule that has the three tables as inputs and the config as ``params.study``."""
        study, source = Study.model_validate_json(snakemake.params.study), snakemake.input
        return cls.load(study, Path(source.runs), Path(source.samples), Path(source.comparisons))

    @cached_property
    def runs(self) -> list[Row]:
        """Every run, in the order of the table."""
        return list(self.runs_table.to_pylist())

    @cached_property
    def evidence(self) -> list[Evidence]:
        """What every comparison and every control rests on."""
        return evidence(self.study, self.by_place, self.values)

    @cached_property
    def judged(self) -> dict[tuple[str, ...], tuple[Evidence, equality.Equality]]:
        """The evidence of every row of the table with its parity, by ``row_key``."""
        return {one.key: (one, equality.judge(one)) for one in self.evidence if one.contrast != CONTROL}

    @cached_property
    def attempts(self) -> list[tuple[Attempt, bool]]:
        """Every attempt with whether it counts."""
        return attempts(self.runs)

    @cached_property
    def by_place(self) -> dict[Place, Attempts]:
        """The same for each (machine_id, id of the cell) that has runs."""
        return by_place(self.attempts)

    @cached_property
    def values(self) -> Values:
        """The median of every run's samples, by (run_id, metric, phase)."""
        return summaries(self.samples)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """The compared (treatment, reference) in reading order: docker ÷ host, docker ÷ chroot, the others."""
        listed: list[tuple[str, str]] = [(pair.treatment, pair.reference) for pair in self.study.comparisons]
        return [*(pair for pair in _LEADING if pair in listed), *(p for p in listed if p not in _LEADING)]

    @cached_property
    def compared_pairs(self) -> list[tuple[str, str]]:
        """Those of ``pairs`` that any cell compares."""
        compared = {(row["treatment"], row["reference"]) for row in self.compared}
        return [pair for pair in self.pairs if pair in compared]

    @property
    def pair_names(self) -> list[str]:
        """The pairs in reading order, in words."""
        return [f"{treatment} ÷ {reference}" for treatment, reference in self.pairs]

    @cached_property
    def compared(self) -> list[Row]:
        """The rows of the study's own comparisons, without ladder, star and options."""
        return [row for row in self.comparisons if row["contrast"] == RUNTIME]

    def compared_in(self, treatment: str, reference: str) -> list[Row]:
        """Return the compared rows of one pair."""
        pair = treatment, reference
        return [row for row in self.compared if (row["treatment"], row["reference"]) == pair]

    @cached_property
    def groups(self) -> list[list[Row]]:
        """The compared rows, those of one machine, cell and metric together, pairs in reading order."""
        return [
            sorted(rows, key=lambda row: self.pairs.index((row["treatment"], row["reference"])))
            for _, rows in groupby(self.compared, key=_metric_key)
        ]

    @cached_property
    def attributed(self) -> list[list[Row]]:
        """The rows of ladder, star, interaction and options, those of one machine, cell and metric together."""
        rows = [row for row in self.comparisons if row["contrast"] != RUNTIME]
        return [list(of_metric) for _, of_metric in groupby(rows, key=_metric_key)]

    def attributed_at(self, machine_id: str, cell: str, contrasts: Collection[str]) -> list[list[Row]]:
        """Return the attributed rows of some contrasts in one cell by metric; metrics without any are absent."""
        return [
            shown
            for rows in self.attributed
            if (rows[0]["machine_id"], rows[0]["cell"]) == (machine_id, cell)
            if (shown := [row for row in rows if row["contrast"] in contrasts])
        ]

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The cells of the study by id, in its order."""
        return {cell.id: cell for cell in self.study.expand()}

    def pair_label(self, treatment: str, reference: str) -> str:
        """Return what differs between two runtimes by construction; of a variant and its base, what it changes."""
        base = self.study.base
        if treatment in self.study.variants and base(treatment) == base(reference):
            return self.study.step(treatment)
        return verdict.treatment_label(base(treatment), base(reference))

    def pair_words(self, treatment: str, reference: str) -> str:
        """Return a pair as a sentence names it: ``docker against the host (isolation + userland)``."""
        against = "the host" if reference == "host" else reference
        return f"{treatment} against {against} ({self.pair_label(treatment, reference)})"

    def runtimes_of(self, cell: Cell) -> tuple[str, ...]:
        """Return a cell's runtimes without those that only ladder, star or options brought; all if none is left."""
        study = self.study
        brought = {*study.ladder, *study.star, *study.options} - {*study.runtimes}
        return tuple(name for name in cell.runtimes if name not in brought) or cell.runtimes

    @cached_property
    def machines(self) -> list[str]:
        """The machine_ids that occur, sorted."""
        return sorted({str(run["machine_id"]) for run in self.runs})

    @cached_property
    def missing(self) -> list[tuple[str, int]]:
        """The (cell, block) of the config of which no run exists."""
        there = {(run["cell"], run["block"]) for run in self.runs}
        wanted = [
            (cell.id, block) for cell in self.study.expand() for block in range(1, self.study.blocks + 1)
        ]
        return [one for one in wanted if one not in there]

    @property
    def expected_blocks(self) -> int:
        """How many blocks the config asks for, over all cells."""
        return len(self.study.expand()) * self.study.blocks

    def progress(self) -> str:
        """Return ``partial, n of N blocks``, or the same without “partial” when all are there."""
        done = self.expected_blocks - len(self.missing)
        word = "partial, " if self.partial or self.missing else ""
        return f"{word}{done} of {self.expected_blocks} blocks"

    def counted(self, machine_id: str, cell: str) -> list[Attempt]:
        """Return the attempts of a cell that count, by block."""
        return [one for one, counts in self.by_place.get((machine_id, cell), ()) if counts]

    def places(self) -> list[tuple[str, Cell]]:
        """Return the (machine_id, cell) that have runs, machines first, cells in the order of the study."""
        return [
            (m, cell) for m in self.machines for cell in self.cells.values() if (m, cell.id) in self.by_place
        ]

    def place_name(self, machine_id: str, cell: Cell) -> str:
        """Return the cell's id, with the machine where the study has several."""
        return cell.id if len(self.machines) <= 1 else f"{cell.id} on {short(machine_id)}"


def _metric_key(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("machine_id", "cell", "phase", "metric"))


def row_key(row: Row) -> tuple[str, ...]:
    """Return what identifies a row among the comparisons of a study."""
    columns = ("machine_id", "cell", "phase", "metric", "contrast", "treatment", "reference")
    return tuple(str(row[name]) for name in columns)


def metric(row: Row) -> Metric:
    """Return the metric of a comparison as its workload declares it."""
    metrics = WORKLOADS[row["workload"]].metrics
    return next(m for m in metrics if (m.name, m.phase) == (row["metric"], row["phase"]))


def label(row: Row) -> str:
    """Return the metric of a comparison as people read it, e.g. ``steady training step``."""
    return metric(row).label


def layer(row: Row) -> str:
    """Return which layer of the machine the comparison's workload looks at."""
    return WORKLOADS[row["workload"]].layer


def by_layer(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return layer → its rows, in the order of the report; layers without a row are absent."""
    found: dict[str, list[Row]] = {name: [] for name in LAYERS}
    for row in rows:
        found[layer(row)].append(row)
    return {name: of_layer for name, of_layer in found.items() if of_layer}


def most_moved(groups: Sequence[list[Row]], most: int | None) -> list[list[Row]]:
    """Return all or ``most`` of some groups in their order: those with the largest difference outside the noise."""

    def largest(rows: Sequence[Row]) -> float:
        told = (row for row in rows if row["ratio"] is not None and not verdict.within_noise(row))
        return max((abs(math.log(row["ratio"])) for row in told), default=0.0)

    chosen = sorted(range(len(groups)), key=lambda number: -largest(groups[number]))[:most]
    return [groups[number] for number in sorted(chosen)]


def short(identity: str) -> str:
    """Return the first 12 characters of a hash, its kind left out."""
    return identity.removeprefix("sha256:")[:12]


def ok_runs(attempts_: Iterable[Attempt], runtime: str) -> list[Row]:
    """Return the valid runs of ``runtime`` (control left out) in some attempts."""
    found = (one.runs.get((runtime, "measure")) for one in attempts_)
    return [run for run in found if run is not None and run["status"] == "ok"]
