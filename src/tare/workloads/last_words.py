"""What a program said last, for the message that it failed; pure."""

from __future__ import annotations

#: how much of a program's output an error repeats, in characters
TAIL = 300


def last_words(text: str) -> str:
    """Return the end of an output on one line, blank lines left out; empty when it said nothing."""
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())[-TAIL:]
