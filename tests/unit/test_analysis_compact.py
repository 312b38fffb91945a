"""Smaller SVG, same drawing."""

import pytest

from tare.analysis.figures.compact import compact


@pytest.mark.parametrize(
    ("svg", "expected"),
    [
        ('<path d="M 1.23456 -0.004 L 17 2.5"/>\n', '<path d="M 1.23 0 L 17 2.5"/>\n'),
        (
            '<g transform="translate(1.005001 3) scale(0.015625)"/>\n',
            '<g transform="translate(1.01 3) scale(0.015625)"/>\n',
        ),
        ('<!-- +5 % -->\n    <g id="text_12">\n', "<g>\n"),
        ('<g id="matplotlib.axis_1"/>\n', '<g id="matplotlib.axis_1"/>\n'),
        ('<path id="DejaVuSans-30"/>\n', '<path id="n30"/>\n'),
        ('<path id="DejaVuSans-Bold-4a"/>\n', '<path id="b4a"/>\n'),
        (
            '<use xlink:href="#DejaVuSans-Bold-30" transform="translate(63.623047 0)"/>\n',
            '<use xlink:href="#b30" x="63.62"/>\n',
        ),
        (  # a superscript is moved up too, and scaled
            '<use xlink:href="#DejaVuSans-30" transform="translate(6.5 3.25) scale(0.7)"/>\n',
            '<use xlink:href="#n30" transform="translate(6.5 3.25) scale(0.7)"/>\n',
        ),
        (  # the same name is the same number, and every other another
            '<g id="m7897ff3568"/><g clip-path="url(#p40e72c1d68)"/><use xlink:href="#m7897ff3568"/>\n',
            '<g id="m.0"/><g clip-path="url(#p.1)"/><use xlink:href="#m.0"/>\n',
        ),
        ('<path style="stroke-width: 0.6; opacity: 0.35" fill="#0072b2"/>\n',) * 2,
    ],
)
def test_what_nobody_sees_goes(svg, expected):
    assert compact(svg) == expected


def test_what_is_compact_stays():
    svg = '<svg>\n<use xlink:href="#n30" x="1.5"/>\n</svg>\n'
    assert compact(compact(svg)) == svg
