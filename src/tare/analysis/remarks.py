"""The warnings of many verdicts, each said once: with a number to point to, and how many verdicts it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tare.analysis.incidents import cause
from tare.analysis.view import Group


@dataclass(frozen=True)
class Remark:
    """Warnings that differ at most in numbers: the first of them, all of them, and how many verdicts they concern."""

    number: int
    text: str
    alike: tuple[str, ...]  # every wording, where there are several
    verdicts: int


def remarks(shown: Iterable[Group]) -> list[Remark]:
    """Return the warnings of some groups in the order in which they are met."""
    counts: dict[str, dict[str, int]] = {}
    for group in shown:
        for line in group.lines:
            for text in (*group.warnings, *line.warnings):
                wordings = counts.setdefault(cause(text), {})
                wordings[text] = wordings.get(text, 0) + 1
    return [
        Remark(number, next(iter(texts)), tuple(texts) if len(texts) > 1 else (), sum(texts.values()))
        for number, texts in enumerate(counts.values(), 1)
    ]


def numbers(found: Sequence[Remark]) -> dict[str, int]:
    """Return every wording with the number of its remark."""
    return {text: one.number for one in found for text in (one.alike or (one.text,))}
