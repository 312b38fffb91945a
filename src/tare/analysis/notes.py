"""What a reader must know beside a verdict: blocks that do not count, noise, software that changed, flags."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tare.analysis import units
from tare.analysis.pairing import NO_REASON, BlockRatio, Evidence, Row, is_disturbed
from tare.analysis.study_data import StudyData, label, short

_SOFTWARE = (("image_digest", "image"), ("worker_sha256", "worker"), ("lock_sha256", "lock"))
FEW_BLOCKS = 3


def warnings(data: StudyData, row: Row, evidence: Evidence) -> list[str]:
    """Return the warnings of one comparison, the control's left out; each says what was found and what it means."""
    found = list(_blocks(data, evidence))
    if row["ratio"] is None:
        return found
    found += [*_software(evidence), *_flags(evidence.usable)]
    if row["ci_low"] == row["ci_high"]:
        found.append(
            "all blocks gave exactly the same ratio: suspiciously perfect, look at the samples before believing it"
        )
    return found


def _blocks(data: StudyData, evidence: Evidence) -> Iterable[str]:
    usable = len(evidence.usable)
    there = len(evidence.usable) + len(evidence.unusable)
    if there < data.study.blocks:
        yield f"{units.count(data.study.blocks - there, 'block')} of {data.study.blocks} not measured yet"
    by_reason: dict[str, list[int]] = defaultdict(list)
    for one in evidence.unusable:
        by_reason[one.reason or NO_REASON].append(one.block)
    for reason, blocks in sorted(by_reason.items(), key=lambda item: item[1]):
        yield (
            f"{block_list(blocks)} does not count: {reason}"
            if len(blocks) == 1
            else (f"{block_list(blocks)} do not count: {reason}")
        )
    if evidence.disturbed_blocks:
        yield (
            f"{block_list(evidence.disturbed_blocks)}: disturbed in every attempt; the last attempt is kept and counts"
        )
    if 2 <= usable < FEW_BLOCKS:
        yield f"the interval rests on {usable} blocks only: its width is itself uncertain; raise `blocks`"


def control_warnings(row: Row) -> list[str]:
    """Return what the control of a metric warns of; its interval is shown beside, so the texts repeat themselves."""
    low, high = row["noise_ci_low"], row["noise_ci_high"]
    if low is None or high is None:
        return ["no control: the noise floor is unknown"]
    found = []
    if not low <= 1 <= high:
        found.append("the control differs from itself: something other than the runtime acts on these blocks")
    if low < 1 / (1 + row["margin"]) or high > 1 + row["margin"]:
        margin = units.margin(row["margin"])
        found.append(
            f"the noise floor (the control's interval) is wider than the margin {margin}: raise `blocks`"
        )
    return found


def _software(evidence: Evidence) -> Iterable[str]:
    for side, name in enumerate((evidence.reference, evidence.treatment)):
        runs = [run for one in evidence.usable if (run := one.runs[side]) is not None]
        for column, what in _SOFTWARE:
            values = sorted({short(run[column]) for run in runs if run[column]})
            if len(values) > 1:
                yield f"{name}: the {what} changed between blocks ({', '.join(values)}); measure them again"


def _flags(usable: Sequence[BlockRatio]) -> Iterable[str]:
    counts: Counter[str] = Counter()
    for one in usable:
        for run in one.runs:
            if run is not None:
                counts.update(flag for flag in run["flags"] or () if not flag.startswith("disturbed"))
    for flag, number in sorted(counts.items()):
        yield f"{flag} ({units.count(number, 'run')})"


def noise_floor(data: StudyData) -> str | None:
    """Return one sentence on the widest control interval outside start-up, or None without a control."""
    measured = [row for row in data.comparisons if row["noise_ratio"] is not None]
    rows = [row for row in measured if row["phase"] != "startup"] or measured
    if not rows:
        return None
    widest = max(rows, key=lambda row: row["noise_ci_high"] / row["noise_ci_low"])
    return (
        f"Noise floor: {data.cells[widest['cell']].control} against itself in the same blocks; widest interval "
        f"{units.interval(widest['noise_ci_low'], widest['noise_ci_high'])} "
        f"({widest['cell']}, {label(widest)})."
    )


def disturbed_share(data: StudyData) -> str | None:
    """Return one sentence on how many of the runs that count were disturbed, or None for none."""
    counted = [run for one, counts in data.attempts if counts for run in one.runs.values()]
    number = sum(map(is_disturbed, counted))
    if not number:
        return None
    runs = units.count(len(counted), "run")
    return f"Disturbed: {number} of {runs} that count; a quieter machine narrows the intervals."


def block_list(blocks: Sequence[int]) -> str:
    """Return ``block 3``, ``blocks 1–3, 5``."""
    ordered = sorted(set(blocks))
    spans: list[list[int]] = []
    for number in ordered:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in spans)
    return f"block{'' if len(ordered) == 1 else 's'} {text}"
