"""Did two runs do the same work with the same software? Compares fingerprints, field by field. Standard library only.

What may differ depends on the pair (design.md §7): between two runs of one image only the isolation; in a pair
with `host` also the userland, and the verdict then says so.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tare.parity_fields import (
    IGNORED,
    ISOLATION,
    REQUIRED,
    SPECULATION,
    USERLAND,
    flatten,
    library_key,
    library_kind,
    rule_of,
    treated,
)

HOST = "host"
LOSSES = "check.losses"
_SHOWN_CHARACTERS = 160
_OPTIMISATION = {"process.interpreter.pgo": "profile-guided", "process.interpreter.lto": "link-time"}

#: largest relative difference of a loss that another userland may make, by the framework's name in `software`.
#: torch: other libm and thread counts change the last bits, which a few steps of SGD amplify; 1e-3 is far below
#: what another network or other data do (seen: the seventh digit, when a library detected another CPU).
LOSS_TOLERANCE = {"torch": 1e-3}
DEFAULT_LOSS_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Parity:
    """What a comparison of two fingerprints found.

    ``status``: `same`, `userland`, `different` or, for losses that prove nothing, `unknown`. ``fields``: the
    dotted names that decide it. ``details``: every field that differs → both values, or a text.
    ``isolation`` and ``speculation``: what differs and is no fault. ``warnings``: texts for the report.
    """

    status: str
    fields: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    isolation: tuple[str, ...] = ()
    speculation: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Difference:
    field: str
    kind: str
    values: tuple[str, str]


def compare(
    reference: Mapping[str, Any], treatment: Mapping[str, Any], reference_runtime: str, treatment_runtime: str
) -> Parity:
    """Return the parity of two runs by their fingerprints (``tare.fingerprint.assemble``)."""
    across = (reference_runtime == HOST) != (treatment_runtime == HOST)
    found = [*_absent(reference, treatment), *_fields(reference, treatment, across)]
    found += _libraries(reference.get("libraries") or {}, treatment.get("libraries") or {}, across)
    by_kind: dict[str, list[str]] = {}
    for difference in found:
        kind = REQUIRED if difference.kind == USERLAND and not across else difference.kind
        by_kind.setdefault(kind, []).append(difference.field)
    required, userland = by_kind.get(REQUIRED, []), by_kind.get(USERLAND, [])
    return Parity(
        status="different" if required else "userland" if userland else "same",
        fields=tuple(sorted(required or userland)),
        details={difference.field: difference.values for difference in found},
        isolation=tuple(sorted(by_kind.get(ISOLATION, []))),
        speculation=tuple(sorted(by_kind.get(SPECULATION, []))),
        warnings=tuple(_warnings(found)),
    )


def _absent(reference: Mapping[str, Any], treatment: Mapping[str, Any]) -> Iterator[_Difference]:
    """Yield the parts that a side lacks: what was not recorded is not proved equal."""
    for part in ("node", "launch", "process", "software", "libraries"):
        sides = tuple(
            "recorded" if side.get(part) is not None else "not recorded" for side in (reference, treatment)
        )
        if "not recorded" in sides:
            yield _Difference(part, REQUIRED, (sides[0], sides[1]))


def _fields(
    reference: Mapping[str, Any], treatment: Mapping[str, Any], across: bool
) -> Iterator[_Difference]:
    parts = ("node", "launch", "process", "software", "check")
    left, right = (
        flatten({part: side[part] for part in parts if side.get(part)}) for side in (reference, treatment)
    )
    toggled = treated(left, right)
    for name in sorted({*left, *right}):
        kind = rule_of(name).kind
        if toggled and toggled.fullmatch(name):
            kind = ISOLATION
        if kind == IGNORED or left.get(name) == right.get(name):
            continue
        if across and name == "launch.image_digest":
            continue  # the host has none: its own files are compared below
        yield _Difference(name, kind, _shown(left, right, name))


def _libraries(
    reference: Mapping[str, str | None], treatment: Mapping[str, str | None], across: bool
) -> Iterator[_Difference]:
    left, right = _by_key(reference, across), _by_key(treatment, across)
    for key in sorted({*left, *right}):
        if left.get(key) != right.get(key):
            kind = library_kind(key, across)
            yield _Difference(f"libraries.{key}", kind, (_sums(left.get(key)), _sums(right.get(key))))


def _by_key(libraries: Mapping[str, str | None], across: bool) -> dict[str, list[str]]:
    """Return the name under which libraries are compared → their sums; several files may have one name."""
    found: dict[str, list[str]] = {}
    for path, total in sorted(libraries.items()):
        found.setdefault(library_key(path, across), []).append(total or "not known")
    return {key: sorted(totals) for key, totals in found.items()}


def _sums(totals: Sequence[str] | None) -> str:
    return "not loaded" if totals is None else ", ".join(total[:16] for total in totals)


def _shown(left: Mapping[str, Any], right: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return both values as texts, long ones from shortly before the place where they part."""
    texts = [str(side[name]) if name in side else "not set" for side in (left, right)]
    if max(map(len, texts)) <= _SHOWN_CHARACTERS:
        return texts[0], texts[1]
    common = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, common - 20)
    short = [("…" if start else "") + text[start : start + _SHOWN_CHARACTERS] for text in texts]
    return short[0], short[1]


def _warnings(found: Sequence[_Difference]) -> Iterator[str]:
    for difference in found:
        what = _OPTIMISATION.get(difference.field)
        if what:
            values = " and ".join(difference.values)
            yield (
                f"the interpreters differ in {what} optimisation ({values}): this alone can make Python code "
                "slower by a third; it is the userland, not the container"
            )
        elif difference.kind == SPECULATION:
            yield (
                f"{difference.field.rpartition('.')[2]} differs ({' and '.join(difference.values)}): the kernel "
                "mitigates speculation for one side only; measure with seccomp=unconfined to see what it costs"
            )


def compare_losses(
    references: Sequence[Mapping[str, Any]],
    treatments: Sequence[Mapping[str, Any]],
    reference_runtime: str,
    treatment_runtime: str,
) -> Parity:
    """Return the parity of the losses of all runs of both sides (fingerprints, in any order).

    If each side repeats itself bit for bit, two runtimes of one image must agree bit for bit; otherwise they may
    differ by what runs of one side differ. In a pair with `host` the stack's tolerance holds. Losses are the
    float.hex texts ``check.loss_hex``. `unknown`: a single run a side whose losses differ shows no spread.
    """
    sides = [[_losses(one) for one in side] for side in (references, treatments)]
    lengths = {len(losses) for side in sides for losses in side}
    if lengths <= {0}:
        return Parity("same")
    if len(lengths) != 1 or not all(sides):
        counts = [str(sorted({len(losses) for losses in side})) for side in sides]
        return Parity("different", (LOSSES,), {LOSSES: (f"{counts[0]} losses", f"{counts[1]} losses")})
    if len({tuple(losses) for side in sides for losses in side}) == 1:
        return Parity("same")
    across = (reference_runtime == HOST) != (treatment_runtime == HOST)
    difference, spread = _distance(*sides)
    limit, what = (
        (_tolerance(references[0]), "tolerance of the stack") if across else (spread, "spread of one side")
    )
    text = f"largest relative difference {difference:.3g} ({what} {limit:.3g})"
    if not across and spread == 0 and min(map(len, sides)) < 2:
        return Parity(
            "unknown", (LOSSES,), {LOSSES: f"{text}; one run a side shows no spread: measure more blocks"}
        )
    good = difference <= limit
    return Parity("same" if good else "different", () if good else (LOSSES,), {LOSSES: text})


def _losses(one: Mapping[str, Any]) -> list[float]:
    return [float.fromhex(text) for text in (one.get("check") or {}).get("loss_hex") or []]


def _distance(
    reference: Sequence[Sequence[float]], treatment: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """Return (largest relative difference of the sides' medians, largest relative range within a side) over steps."""
    difference = spread = 0.0
    for left, right in zip(zip(*reference, strict=True), zip(*treatment, strict=True), strict=True):
        middle = statistics.median(left)
        scale = max(abs(middle), 1e-12)
        difference = max(difference, abs(statistics.median(right) - middle) / scale)
        spread = max(spread, (max(left) - min(left)) / scale, (max(right) - min(right)) / scale)
    return difference, spread


def _tolerance(one: Mapping[str, Any]) -> float:
    software = one.get("software") or {}
    return next((limit for name, limit in LOSS_TOLERANCE.items() if name in software), DEFAULT_LOSS_TOLERANCE)
