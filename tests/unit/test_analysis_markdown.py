"""Texts inside Markdown: markup is escaped, everything else is left readable."""

import pytest

from tare.analysis.markdown import cell_text


@pytest.mark.parametrize(
    "plain",
    [
        "[−1.2 %, +7.6 %]",
        "step_seconds and _json.cpython-311",
        "raise `blocks`",
        "p < 0.001 & more",
        "a \\ b",
        "(about 3 blocks)",
        "C:\\Users",
    ],
)
def test_readable_texts_stay_as_they_are(plain):
    assert cell_text(plain) == (plain if "_json" not in plain else plain.replace(" _json", r" \_json"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", r"a\|b"),
        ("*bold* ~gone~", r"\*bold\* \~gone\~"),
        ("_it_", r"\_it\_"),
        ("<script>", r"\<script>"),
        ("</td>", r"\</td>"),
        ("&lt;", r"\&lt;"),
        ("[x](javascript:1)", r"\[x](javascript:1)"),
        ("[x][y]", r"\[x][y]"),
        (r"\|", r"\\\|"),
        ("a ` b", r"a \` b"),
        ("one\n\n# two\t three", "one # two three"),
    ],
)
def test_markup_is_escaped(text, expected):
    assert cell_text(text) == expected
