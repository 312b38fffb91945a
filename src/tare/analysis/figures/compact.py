"""A figure's SVG without what nobody sees: a page holds all figures of a study and must stay small enough to mail."""

from __future__ import annotations

import re

#: factors are kept as they are: text is scaled by small ones
_NUMBER = re.compile(r"scale\([^)]*\)|-?\d+\.\d{3,}")
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
#: names matplotlib gives to every group; nothing refers to them
_GROUP_ID = re.compile(r'(<g) id="[a-zA-Z0-9]+_\d+"')
_GLYPH = re.compile(r"\bDejaVuSans(-Bold|-Oblique|-BoldOblique)?-([0-9a-f]+)\b")
#: matplotlib's own names hold a hash of coordinates to the last bit, which the layout does not repeat
_HASHED = re.compile(r"\b([a-z])([0-9a-f]{10})\b")
_SHIFT = re.compile(r'(<use xlink:href="#\w+") transform="translate\((-?[\d.]+) 0\)"/>')
_SHORT = {None: "n", "-Bold": "b", "-Oblique": "o", "-BoldOblique": "c"}


def compact(svg: str) -> str:
    """Return the same drawing: coordinates to a hundredth of a point, short names, no comments or indents."""
    svg = _COMMENT.sub("", svg)
    svg = _GROUP_ID.sub(r"\1", svg)
    svg = _GLYPH.sub(lambda found: f"{_SHORT[found[1]]}{found[2]}", svg)
    numbers: dict[str, str] = {}
    svg = _HASHED.sub(lambda found: numbers.setdefault(found[0], f"{found[1]}.{len(numbers)}"), svg)
    svg = _NUMBER.sub(_rounded, svg)
    svg = _SHIFT.sub(r'\1 x="\2"/>', svg)
    return "\n".join(line.lstrip() for line in svg.splitlines()) + "\n"


def _rounded(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("scale"):
        return text
    short = f"{float(text):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short
