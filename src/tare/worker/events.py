"""The events of a run: kept in memory, written whole or not at all when nothing is timed any more."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List


class Events:
    """The JSON lines of one run, in order."""

    def __init__(self) -> None:
        self._events: List[Dict[str, Any]] = []

    def add(self, event: str, **fields: Any) -> None:
        """Append an event; nothing is written yet."""
        self._events.append({"event": event, **fields})

    def write(self, path: str) -> None:
        """Write all events to ``path`` through a temporary file beside it, so that no half file is ever seen."""
        temporary = path + ".tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            for event in self._events:
                # NaN is no JSON: a loss that is not finite must not make the file unreadable.
                file.write(json.dumps(_finite(event), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
