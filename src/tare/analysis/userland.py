"""How the machine's own software differs from the image's: one sentence in words, and the whole list once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tare import parity, parity_fields
from tare.analysis import units
from tare.analysis.study_data import StudyData, row_key

_VERSION = "process.interpreter.version"
_LIBRARY, _PACKAGE = "libraries.", "software.packages."
_BUILD = re.compile(r"(\d[\w.+]*) \(.*?, (\w{3} +\d+ \d{4}),")


@dataclass(frozen=True)
class Field:
    """One recorded field that differs: both values, and the cells in which it does."""

    name: str
    values: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """What differs between the userlands of some pairs: in words, and field by field."""

    pairs: tuple[str, ...]
    words: str
    fields: tuple[Field, ...]

    @property
    def sentence(self) -> str:
        """The difference as a sentence that names the pairs."""
        return f"{', '.join(self.pairs)}: {self.words}."


def differences(data: StudyData) -> list[Difference]:
    """Return the userland differences of the study; pairs that differ in the same way share one entry."""
    by_pair: dict[str, dict[tuple[str, str], list[str]]] = {}
    for row in (row for group in data.groups for row in group if row["parity"] == "userland"):
        _, same = data.judged[row_key(row)]
        fields = by_pair.setdefault(f"{row['treatment']} ÷ {row['reference']}", defaultdict(list))
        for name in [*same.fields, *([parity.LOSSES] if parity.LOSSES in same.details else [])]:
            cells = fields[(name, same.details.get(name, ""))]
            if row["cell"] not in cells:
                cells.append(row["cell"])
    shared: dict[tuple[Field, ...], list[str]] = defaultdict(list)
    for pair, fields in by_pair.items():
        listed = (Field(name, values, tuple(cells)) for (name, values), cells in sorted(fields.items()))
        shared[tuple(listed)].append(pair)
    return [Difference(tuple(pairs), words(fields), fields) for fields, pairs in shared.items() if fields]


def words(fields: Iterable[Field]) -> str:
    """Return in words what differs: the interpreter, the C library and the like by value, files by number."""
    values: Mapping[str, str] = {one.name: one.values for one in fields}
    parts = [f"the interpreter {_interpreter(values[_VERSION])}"] if _VERSION in values else []
    for name, text in values.items():
        if name not in (_VERSION, parity.LOSSES) and not name.startswith((_LIBRARY, _PACKAGE)):
            parts.append(f"{parity_fields.rule_of(name).meaning} ({text})" if text else name)
    packages = sum(name.startswith(_PACKAGE) for name in values)
    libraries = sum(name.startswith(_LIBRARY) for name in values)
    parts += [units.count(packages, "package")] if packages else []
    parts += [units.count(libraries, "library file")] if libraries else []
    said = f"{units.join(parts)} {'differs' if len(parts) == 1 and libraries + packages < 2 else 'differ'}"
    return f"{said if parts else 'the same files'}{_losses(values)}"


def _losses(values: Mapping[str, str]) -> str:
    return "; losses differ within the stack's tolerance" if parity.LOSSES in values else ""


def _interpreter(values: str) -> str:
    """Return ``build (3.11.2 of Apr 28 2025 ≠ 3.11.2 of Oct 7 2026)`` from two texts of ``sys.version``."""
    sides = [_BUILD.match(side) for side in values.split(" ≠ ")]
    dated = [f"{one[1]} of {' '.join(one[2].split())}" for one in sides if one]
    if len(dated) == 2 and dated[0] != dated[1]:
        values = " ≠ ".join(dated)
    return f"build ({values})"
