"""How numbers are shown to people. Tables hold SI base units; every text and figure formats them here and only here."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

MINUS = "−"
MISSING = "–"
_UNIT = r"%|[TGMkmµn]?(?:s|B|[a-zA-Z]+/s)(?![\w/])"

_PREFIXES = {4: "T", 3: "G", 2: "M", 1: "k", 0: "", -1: "m", -2: "µ", -3: "n"}
#: beyond this factor a percentage stops being readable, and the ratio itself is shown
_FACTOR = 3.0


def number(value: float, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` significant digits, never in exponent form, with a true minus sign."""
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))  # 9.996 rounds to one digit more
    return f"{rounded:.{max(decimals, 0)}f}".replace("-", MINUS)


def quantity(value: float | None, unit: str) -> str:
    """Return ``value`` in SI ``unit`` with the prefix that leaves 1 to 3 digits before the point: ``12.3 ms``."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return f"0 {unit}".rstrip()
    rounded = float(f"{value:.3g}")  # first, so that 999.9 ms becomes 1.00 s
    power = min(max(math.floor(math.log10(abs(rounded)) / 3 + 1e-12), min(_PREFIXES)), max(_PREFIXES))
    return f"{number(rounded / 1000.0**power)} {_PREFIXES[power]}{unit}".rstrip()


def round_quantity(value: float, unit: str) -> str:
    """Return ``quantity`` without the zeros behind the point, for the ticks of an axis: ``50 ms``, ``0.5 s``."""
    return re.sub(r"(\.\d*?)0+(?= )", r"\1", quantity(value, unit)).replace(". ", " ")


def percent(ratio: float | None) -> str:
    """Return a cost ratio as signed percentage (``+3.1 %``), or as a factor (``× 15.2``) beyond a factor of 3."""
    if ratio is None or not math.isfinite(ratio):
        return MISSING
    if ratio >= _FACTOR or ratio <= 1 / _FACTOR:
        return f"× {number(ratio)}"
    return share(ratio - 1, signed=True)


def interval(low: float | None, high: float | None) -> str:
    """Return an interval of cost ratios: ``[−1.2 %, +7.6 %]``."""
    if low is None or high is None:
        return MISSING
    return f"[{percent(low)}, {percent(high)}]"


def margin(value: float) -> str:
    """Return an equivalence margin: ``±5 %``."""
    return f"±{value * 100:g} %"


def axis_ratio(ratio: float) -> str:
    """Return the label of a tick at a cost ratio: ``+5 %``, ``0``, ``× 4.0``."""
    if not 0.5 <= ratio <= 2:
        return f"× {number(ratio, 2)}"
    scaled = round((ratio - 1) * 100, 2)
    return "0" if scaled == 0 else f"{scaled:+.3g} %".replace("-", MINUS)


def share(value: float, signed: bool = False) -> str:
    """Return a share as percentage: two decimals below 1 %, else one."""
    if not math.isfinite(value):
        return MISSING
    scaled = value * 100
    decimals = 2 if abs(round(scaled, 2)) < 1 else 1
    text = f"{abs(scaled):.{decimals}f}"
    zero = float(text) == 0
    sign = "" if zero else MINUS if scaled < 0 else "+" if signed else ""
    return f"{sign}{text} %"


def probability(p: float | None) -> str:
    """Return a p value: ``0.032``, ``< 0.001``."""
    if p is None or not math.isfinite(p):
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def count(number_of: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 block``, ``2 blocks``."""
    return f"{number_of} {noun if number_of == 1 else plural or noun + 's'}"


def join(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return "".join(parts) if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def nobreak(text: str) -> str:
    """Return ``text`` with number and unit, and the two ends of an interval, kept on one line."""
    text = re.sub(rf"(?<=\d) (?={_UNIT})|(?<=[×±]) (?=\d)", "\u00a0", text)
    return re.sub(r"\[[^\[\]]{1,30}\]", lambda found: found[0].replace(" ", "\u00a0"), text)
