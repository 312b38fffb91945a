"""Plain text inside Markdown as GitHub renders it: only what would become markup is escaped."""

from __future__ import annotations

import re

#: what would start or close markup where it stands; brackets and underscores inside words are harmless
_MARKUP = re.compile(
    r"""\\(?=[!-/:-@\[-`{-~])     # a backslash that would escape
    | [*~|]
    | (?<![^\W_])_ | _(?![^\W_])  # emphasis needs the edge of a word
    | <(?=[A-Za-z/!?])            # HTML
    | &(?=\#?\w+;)                # a character reference
    | \[(?=[^\]]*\][(\[:])        # a link
    """,
    re.VERBOSE,
)


def cell_text(text: str) -> str:
    """Return ``text`` safe in a paragraph or in a cell of a table: no line breaks, no bars, no markup of its own."""
    flat = " ".join(text.split())
    escaped = _MARKUP.sub(lambda found: f"\\{found[0]}", flat)
    # a lone backtick would open a code span that swallows the cell
    return escaped if escaped.count("`") % 2 == 0 else escaped.replace("`", "\\`")
