"""What was measured, in its own unit: the median of each runtime beside the ratios."""

from __future__ import annotations

from statistics import median

from tare.analysis import units
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData, ok_runs


def medians(data: StudyData, row: Row) -> dict[str, float]:
    """Return runtime → median over the valid runs that count (control left out) of the row's cell and metric.

    In the unit of the metric; a runtime without a valid run is absent. The cost ratio is taken block by block and is
    not the ratio of these medians.
    """
    counted = data.counted(str(row["machine_id"]), row["cell"])
    found: dict[str, float] = {}
    for runtime in data.runtimes_of(data.cells[row["cell"]]):
        keys = ((run["run_id"], row["metric"], row["phase"]) for run in ok_runs(counted, runtime))
        values = [data.values[key] for key in keys if key in data.values]
        if values:
            found[runtime] = median(values)
    return found


def shown(data: StudyData, row: Row) -> tuple[tuple[str, str], ...]:
    """Return every runtime of the row's cell with its median as text, a dash where nothing was measured."""
    found, names = medians(data, row), data.runtimes_of(data.cells[row["cell"]])
    return tuple((name, units.quantity(found.get(name), row["unit"])) for name in names)
