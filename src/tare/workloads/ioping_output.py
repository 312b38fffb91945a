"""What ioping 1.3 prints for programs, read: raw statistics (ioping(1), RAW STATISTICS) and JSON."""

from __future__ import annotations

import json
from typing import List, NamedTuple, Sequence

#: shorter intervals are the rest at the end of a run
WHOLE_INTERVAL = 0.5
#: columns of a raw line
_COLUMNS = 10


class OutputError(RuntimeError):
    """ioping printed something else than documented; the message shows it."""


class Line(NamedTuple):
    """What is used of a raw line: requests that count, their time, the shortest; all requests and all time."""

    counted: int
    running_ns: int
    shortest_ns: int
    total: int
    total_ns: int

    def rate(self) -> float:
        """Return requests per second of the time spent in requests, as ioping itself gives it."""
        return self.counted / self.running_ns * 1e9


def raw_lines(text: str) -> List[Line]:
    """Return the raw lines of a run, the last one for all of it; raises ``OutputError``."""
    lines = [_line(words) for words in map(str.split, text.splitlines()) if words]
    if not lines:
        raise OutputError("ioping printed no statistics; look at the kept stderr.txt")
    return lines


def _line(words: Sequence[str]) -> Line:
    if len(words) != _COLUMNS or not all(word.isdigit() for word in words):
        raise OutputError(
            "ioping printed %r, no raw line of %d numbers; use ioping 1.3 (Debian 12)"
            % (" ".join(words), _COLUMNS)
        )
    numbers = [int(word) for word in words]
    return Line(numbers[0], numbers[1], numbers[4], numbers[8], numbers[9])


def rates(lines: Sequence[Line], interval_seconds: float) -> List[float]:
    """Return requests per second of each whole interval; of the whole run when it had none."""
    least = WHOLE_INTERVAL * interval_seconds * 1e9
    found = [
        line.rate() for line in lines[:-1] if line.counted and line.running_ns and line.total_ns >= least
    ]
    if not found and lines[-1].counted and lines[-1].running_ns:
        found = [lines[-1].rate()]
    return found


def request_times(lines: Sequence[Line]) -> List[int]:
    """Return the time of each request in ns from lines that are one request each; what ioping ignores is left out.

    Raises ``OutputError`` when they do not add up to the last line, the statistics of the whole run.
    """
    single, whole = lines[:-1], lines[-1]
    times = [line.running_ns for line in single if line.counted]
    if any(line.counted > 1 for line in single) or len(times) != whole.counted:
        raise OutputError("ioping printed %d requests one by one, %d in all" % (len(times), whole.counted))
    return times


def json_times(text: str) -> List[int]:
    """Return the time of each request in ns from ``ioping -J``; what ioping ignores is left out."""
    try:
        objects = json.loads(text)
        requests = [entry["io"] for entry in objects if "io" in entry]
        return [int(request["time"]) for request in requests if not request["ignored"]]
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError("ioping's JSON cannot be read (%r): %r" % (error, text[:200])) from None
