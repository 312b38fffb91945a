"""The answer in two sentences: what the container costs in all, and what isolation and starting cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from tare.analysis import units, verdict
from tare.analysis.pairing import Row
from tare.analysis.study_data import StudyData, ok_runs
from tare.records import VERDICTS

_THE = {"host": "the host"}
_FIRST = (("docker", "host"), ("docker", "chroot"))


def answer(data: StudyData) -> tuple[str, str]:
    """Return the two sentences the report opens with; they also hold when nothing could be measured."""
    if not data.runs:
        return "No block has been measured yet, so there is no answer.", "Start the study to get one."
    if all(row["verdict"] == verdict.NOT_COMPARABLE for row in data.comparisons):
        return _nothing(data)
    first, *others = [_about(data, *pair) for pair in _pairs(data)]
    starting = _starting(data)
    parts = [*others, *([starting] if starting else [])]
    second = "; ".join(parts) or "no other pair was compared"
    return _sentence(f"{_prefix(data)}{first}"), _sentence(second)


def _prefix(data: StudyData) -> str:
    partial = f"{data.progress()}: " if data.progress().startswith("partial") else ""
    machines = len(data.machines)
    return partial + (f"on {machines} machines, never mixed: " if machines > 1 else "")


def _pairs(data: StudyData) -> list[tuple[str, str]]:
    """Return up to two pairs: docker ÷ host, then docker ÷ chroot, where the study has them; else its own order."""
    configured: list[tuple[str, str]] = [(pair.treatment, pair.reference) for pair in data.study.comparisons]
    return [*[pair for pair in _FIRST if pair in configured], *[p for p in configured if p not in _FIRST]][:2]


def _about(data: StudyData, treatment: str, reference: str) -> str:
    rows = [row for row in data.comparisons if (row["treatment"], row["reference"]) == (treatment, reference)]
    work = [row for row in rows if row["phase"] != "startup"] or rows
    what = "the work" if work and work[0]["phase"] != "startup" else "starting"
    label = verdict.treatment_label(treatment, reference)
    comparable = [row["ratio"] for row in work if row["verdict"] != verdict.NOT_COMPARABLE]
    against = f"against {_THE.get(reference, reference)} ({label})"
    if not comparable:
        return f"in {treatment} {against} none of {units.count(len(work), 'comparison')} is possible"
    ends = list(dict.fromkeys(map(units.percent, (min(comparable), max(comparable)))))
    return f"in {treatment} {what} costs {' to '.join(ends)} {against}: of {tally(work)}"


def tally(rows: Sequence[Row]) -> str:
    """Return how many comparisons got which verdict, with the largest ratio of those slower and faster."""
    counts = Counter(row["verdict"] for row in rows)
    parts: list[str] = []
    for name in VERDICTS:
        if counts[name]:
            verb = ("is " if counts[name] == 1 else "are ") if not parts else ""
            parts.append(
                f"{counts[name]} {verb}{_verdict(name, [row for row in rows if row['verdict'] == name])}"
            )
    return f"{units.count(len(rows), 'comparison')}, {_join(parts)}" if parts else "0 comparisons"


def _verdict(name: str, rows: list[Row]) -> str:
    if name == verdict.EQUIVALENT:
        return f"equivalent within {units.margin(rows[0]['margin'])}"
    if name not in (verdict.SLOWER, verdict.FASTER):
        return name
    most = (max if name == verdict.SLOWER else min)(rows, key=lambda row: row["ratio"])
    which = "" if len(rows) == 1 else "up to "
    return f"{name} ({which}{units.percent(most['ratio'])}, {most['cell']}: {most['metric']})"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _starting(data: StudyData) -> str | None:
    """Return the median time to the first instruction in each runtime, over all cells of one machine."""
    if len(data.machines) != 1:
        return None
    parts = []
    counted = [one for one, counts in data.attempts if counts]
    for runtime in data.study.runtimes:
        times = [t for run in ok_runs(counted, runtime) if (t := run["seconds_to_start"]) is not None]
        if times:
            where = "on the host" if runtime == "host" else f"in {runtime}"
            parts.append(f"{units.quantity(median(times), 's')} {where}")
    return f"starting a process takes {_join(parts)} (median)" if parts else None


def _nothing(data: StudyData) -> tuple[str, str]:
    number = units.count(len(data.comparisons), "comparison")
    first = _sentence(f"{_prefix(data)}no verdict is possible: {number}, none comparable")
    bad = [run for run in data.runs if run["status"] != "ok"]
    reasons = Counter("; ".join(run["reasons"] or ()) or "no reason recorded" for run in bad)
    if not reasons:
        return first, "The runs ended well, but too few blocks are there or no pair did the same work."
    reason, times = max(reasons.items(), key=lambda item: (item[1], item[0]))
    runs = units.count(len(data.runs), "run")
    return first, _sentence(f"{len(bad)} of {runs} gave no number, most often ({times} times): {reason}")
