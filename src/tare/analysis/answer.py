"""The answer in two sentences: verdict first, numbers second; first the total, then what isolation alone does to it.

A comparison without a verdict gives no number here: its point estimate is not a cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tare.analysis import units, verdict
from tare.analysis.medians import medians
from tare.analysis.pairing import Row, reason
from tare.analysis.study_data import StudyData, label, layer
from tare.records import VERDICTS

_PHASES = {"steady": "steady work", "first": "the first epoch", "startup": "starting"}
#: what the first phase is called where not only epochs are first
_FIRST = "the first pass"
#: more comparisons than this are not named one by one
_MOST_NAMED = 2


def answer(data: StudyData) -> tuple[str, str]:
    """Return the two sentences the report opens with; they also hold when nothing could be measured."""
    if not data.runs:
        return "No block has been measured yet, so there is no answer.", "Start the study to get one."
    if not data.study.comparisons:
        return (
            "This study asks for no comparison.",
            "Name pairs under `comparisons` in its config to get verdicts.",
        )
    if all(row["verdict"] == verdict.NOT_COMPARABLE for row in data.compared):
        return _nothing(data)
    first, *others = [_about(data, *pair) for pair in data.compared_pairs[:2]]
    return _sentence(f"{_prefix(data)}{first}"), _sentence("; ".join(others) or "no other pair was compared")


def _prefix(data: StudyData) -> str:
    partial = f"{data.progress()}: " if data.progress().startswith("partial") else ""
    machines = len(data.machines)
    return partial + (f"on {machines} machines, never mixed: " if machines > 1 else "")


def _about(data: StudyData, treatment: str, reference: str) -> str:
    """Return one sentence on a pair: what is open first, then each kind of work with its verdict."""
    rows, pair = data.compared_in(treatment, reference), data.pair_words(treatment, reference)
    if all(row["verdict"] == verdict.NOT_COMPARABLE for row in rows):
        return f"{pair}: none of {units.count(len(rows), 'comparison')} is possible"
    by_kind = {_work(data, phase): [row for row in rows if row["phase"] == phase] for phase in _PHASES}
    undecided = [name for name, of_kind in by_kind.items() if _mostly_open(of_kind)]
    decided = [_kind(data, name, of) for name, of in by_kind.items() if of and name not in undecided]
    if not undecided:
        return f"{pair}: {'; '.join(decided)}"
    open_rows = [row for name in undecided for row in by_kind[name]]
    return "; ".join(
        [f"no verdict yet on {units.join(undecided)} in {pair}: {_why_open(open_rows)}", *decided]
    )


def _work(data: StudyData, phase: str) -> str:
    """Return what a phase is called: first epochs, or in a study that also writes files for the first time, both."""
    layers = {layer(row) for row in data.compared if row["phase"] == phase}
    return _FIRST if phase == "first" and layers - {"training"} else _PHASES[phase]


def _mostly_open(rows: Sequence[Row]) -> bool:
    verdicts = [str(row["verdict"]) for row in rows if row["verdict"] != verdict.NOT_COMPARABLE]
    return 2 * verdicts.count(verdict.INCONCLUSIVE) > len(verdicts)


def _why_open(rows: Sequence[Row]) -> str:
    """Return why there is no verdict, and the verdicts that there are all the same."""
    loose = [row for row in rows if row["verdict"] == verdict.INCONCLUSIVE]
    wide = sum(not verdict.only_corrected(row) for row in loose)
    margin = units.margin(rows[0]["margin"])
    if 2 * wide <= len(loose):
        reason = "most intervals alone would decide, but the corrected p values do not"
    else:
        reason = f"{'the' if wide == len(loose) else 'most'} intervals reach beyond the margin {margin}"
    return f"{reason} ({tally(rows)})"


def _kind(data: StudyData, name: str, rows: Sequence[Row]) -> str:
    """Return the verdict on one kind of work, e.g. ``starting is slower (2 comparisons, intervals within …)``."""
    verdicts = {row["verdict"] for row in rows}
    number = units.count(len(rows), "comparison")
    seen = _start_medians(data, rows)
    if len(verdicts) > 1:
        return f"in {name} {tally(rows)}{f' ({seen})' if seen else ''}"
    only = verdicts.pop()
    if only == verdict.NOT_COMPARABLE:
        return f"{name} cannot be compared ({number})"
    margin = f" within {units.margin(rows[0]['margin'])}" if only == verdict.EQUIVALENT else ""
    parts = [number, _bounds(rows), *([seen] if seen else [])]
    return f"{name} is {only}{margin} ({', '.join(parts)})"


def tally(rows: Sequence[Row]) -> str:
    """Return how many comparisons got which verdict, with the bounds of the intervals of those that are decided."""
    counts = Counter(row["verdict"] for row in rows)
    there = [name for name in VERDICTS if counts[name]]
    parts = [_verdict(name, [row for row in rows if row["verdict"] == name]) for name in there]
    number = units.count(len(rows), "comparison")
    if len(rows) == 1:
        return f"the one comparison is {parts[0]}"
    if len(there) == 1:
        return f"all {number} are {parts[0]}"
    first = f"{counts[there[0]]} of {number} {'is' if counts[there[0]] == 1 else 'are'} {parts[0]}"
    others = (f"{counts[name]} {words}" for name, words in zip(there[1:], parts[1:], strict=True))
    return units.join([first, *others])


def _verdict(name: str, rows: Sequence[Row]) -> str:
    if name == verdict.EQUIVALENT:
        return f"equivalent within {units.margin(rows[0]['margin'])} ({_bounds(rows)})"
    if name not in (verdict.SLOWER, verdict.FASTER):
        return name
    if len(rows) > _MOST_NAMED:
        return f"{name} ({_bounds(rows)})"
    named = (f"{row['cell']} {label(row)} {units.interval(row['ci_low'], row['ci_high'])}" for row in rows)
    return f"{name} ({', '.join(named)})"


def _bounds(rows: Sequence[Row]) -> str:
    """Return the widest bounds of the 90 % intervals."""
    low, high = min(row["ci_low"] for row in rows), max(row["ci_high"] for row in rows)
    return f"{'interval' if len(rows) == 1 else 'intervals within'} {units.interval(low, high)}"


def _start_medians(data: StudyData, rows: Sequence[Row]) -> str:
    """Return the median times to the first instruction when the leading pair has a verdict on them, else nothing."""
    pair = data.compared_pairs[0]
    starts = [
        row
        for row in rows
        if row["metric"] == "start_seconds" and (row["treatment"], row["reference"]) == pair
    ]
    if len(starts) != 1 or starts[0]["verdict"] in (verdict.INCONCLUSIVE, verdict.NOT_COMPARABLE):
        return ""
    found = medians(data, starts[0])
    return "median to the first instruction " + units.join(
        [
            f"{units.quantity(found[side], 's')} {'on the host' if side == 'host' else f'in {side}'}"
            for side in (starts[0]["reference"], starts[0]["treatment"])
        ]
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _nothing(data: StudyData) -> tuple[str, str]:
    number = units.count(len(data.compared), "comparison")
    first = _sentence(f"{_prefix(data)}no verdict is possible: {number}, none comparable")
    bad = [run for run in data.runs if run["status"] != "ok"]
    reasons = Counter(map(reason, bad))
    if not reasons:
        return first, "The runs ended well, but too few blocks are there or no pair did the same work."
    most, times = max(reasons.items(), key=lambda item: (item[1], item[0]))
    runs = units.count(len(data.runs), "run")
    return first, _sentence(f"{len(bad)} of {runs} gave no number, most often ({times} times): {most}")
