"""The answer's last sentence: what costs, if anything. By the ladder's steps, or where there is none by layers.

A cost is named only with a verdict: slower, outside what the control shows as noise, and for a step of the ladder by
more than the margin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tare.analysis import units, verdict
from tare.analysis.contrasts import LADDER
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData, by_layer, label
from tare.analysis.verdict import EQUIVALENT, FASTER, INCONCLUSIVE, NOT_COMPARABLE, SLOWER

#: more steps than this are counted, not named
_MOST_STEPS = 4
_ISOLATION = ("docker", "chroot")


def what_costs(data: StudyData) -> str:
    """Return one sentence on which step of the ladder, or which layer, costs; empty where nothing is compared."""
    steps = [row for row in data.comparisons if row["contrast"] == LADDER]
    if steps:
        return _of_steps(data, steps)
    pairs = data.compared_pairs
    if not pairs:
        return ""
    return _of_layers(data, *(_ISOLATION if _ISOLATION in pairs else pairs[0]))


def costs(row: Row) -> bool:
    """Return whether a row shows a cost: slower, and not within what the control shows for nothing."""
    return row["verdict"] == SLOWER and not verdict.within_noise(row)


def _of_steps(data: StudyData, steps: Sequence[Row]) -> str:
    margin = units.margin(data.study.margin)
    dear = [row for row in steps if _beyond(row)]
    others = [row for row in steps if not _beyond(row)]
    where = f"from {data.study.ladder[0]} to {data.study.ladder[-1]}"
    if not any(row["verdict"] != NOT_COMPARABLE for row in steps):
        number = units.count(len(steps), "comparison")
        return f"What costs is not known: no step {where} could be compared ({number})."
    if not dear and _nothing(others):
        return (
            f"Nothing that costs was found: all {len(steps)} comparisons of single steps {where} are equivalent "
            f"within {margin}, and no interval leaves the noise."
        )
    rest = _counts(others)
    if not dear:
        return f"No step {where} is surely slower by more than {margin}: {rest}."
    named = _by_step(data, dear)
    return f"What costs, step by step {where}: {named}{f'; of the others {rest}' if others else ''}."


def _beyond(row: Row) -> bool:
    return costs(row) and bool(row["ci_low"] > 1 + row["margin"])


def _by_step(data: StudyData, dear: Sequence[Row]) -> str:
    """Return each step that costs with its worst workload, worst step first."""
    by_level: dict[str, list[Row]] = {}
    for row in sorted(dear, key=lambda row: float(row["ci_low"]), reverse=True):
        by_level.setdefault(str(row["level"]), []).append(row)
    parts = [
        f"{level} ({_worst(data, rows)}{f' and {len(rows) - 1} more' if len(rows) > 1 else ''})"
        for level, rows in list(by_level.items())[:_MOST_STEPS]
    ]
    more = len(by_level) - _MOST_STEPS
    return units.join([*parts, *([units.count(more, "further step")] if more > 0 else [])])


def _of_layers(data: StudyData, treatment: str, reference: str) -> str:
    rows, pair = data.compared_in(treatment, reference), data.pair_words(treatment, reference)
    comparable = [row for row in rows if row["verdict"] != NOT_COMPARABLE]
    if not comparable:
        return (
            f"What costs is not known: none of {units.count(len(rows), 'comparison')} of {pair} is possible."
        )
    if len(comparable) == len(rows) and _nothing(rows):
        return (
            f"Nothing that costs was found in {pair}: {units.join(list(by_layer(rows)))} are equivalent "
            f"within {units.margin(data.study.margin)}, and no interval leaves the noise."
        )
    parts: dict[str, list[str]] = {}
    for name, of_layer in by_layer(rows).items():
        kind, words = _layer(data, name, of_layer)
        parts.setdefault(kind, []).append(words)
    order = ("slower in", "open in", "faster in", "equivalent in", "not comparable in")
    listed = "; ".join(f"{kind} {units.join(parts[kind])}" for kind in order if kind in parts)
    return f"Layer by layer, {pair} is {listed}."


def _layer(data: StudyData, name: str, rows: Sequence[Row]) -> tuple[str, str]:
    """Return the kind of a layer, what is worst in it deciding, and its words."""
    dear = [row for row in rows if costs(row)]
    counts = Counter(row["verdict"] for row in rows)
    number = units.count(len(rows), "comparison")
    open_rows = counts[INCONCLUSIVE] + counts[SLOWER] - len(dear)
    if dear:
        also = f", {open_rows} open" if open_rows else ""
        return "slower in", f"{name} ({len(dear)} of {number}{also}; most: {_worst(data, dear)})"
    if open_rows:
        return "open in", f"{name} ({open_rows} of {number})"
    if counts[FASTER]:
        return "faster in", f"{name} ({counts[FASTER]} of {number})"
    if counts[EQUIVALENT]:
        moved = sum(_moved(row) for row in rows)
        return (
            "equivalent in",
            f"{name} ({number}{f', {moved} with a measurable difference' if moved else ''})",
        )
    return "not comparable in", f"{name} ({number})"


def _worst(data: StudyData, rows: Iterable[Row]) -> str:
    row = max(rows, key=lambda row: float(row["ci_low"]))
    place = data.place_name(str(row["machine_id"]), data.cells[row["cell"]])
    interval = units.interval(row["ci_low"], row["ci_high"])
    return f"{place} {label(row)} {units.percent(row['ratio'])} {interval}"


def _moved(row: Row) -> bool:
    return row["verdict"] == EQUIVALENT and not verdict.within_noise(row)


def _nothing(rows: Sequence[Row]) -> bool:
    """Return whether every row is equivalent and shows no difference beyond the noise."""
    return all(row["verdict"] == EQUIVALENT and verdict.within_noise(row) for row in rows)


def _counts(rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    moved = sum(_moved(row) for row in rows)
    sure = sum(costs(row) for row in rows)
    parts = [
        (sure, "slower, perhaps by less than the margin"),
        (counts[SLOWER] - sure, "slower within the control's noise"),
        (counts[FASTER], "faster"),
        (
            counts[EQUIVALENT],
            f"equivalent{f' ({moved} with a measurable difference)' if moved else ''}",
        ),
        (counts[INCONCLUSIVE], "inconclusive"),
        (counts[NOT_COMPARABLE], "not comparable"),
    ]
    listed = units.join([f"{number} {words}" for number, words in parts if number])
    number = units.count(len(rows), "comparison of a step", "comparisons of a step")
    return f"{number} {'is' if len(rows) == 1 else 'are'} {listed}"
