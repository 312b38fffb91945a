"""The order of the verdict's rules."""

import pytest

from tare.analysis.verdict import decide, measurable, treatment_label


@pytest.mark.parametrize(
    ("ci_low", "ci_high", "p_equivalence", "p_difference", "parity", "expected"),
    [
        (0.99, 1.02, 0.01, 0.5, "same", "equivalent"),
        (
            1.01,
            1.04,
            0.01,
            0.001,
            "same",
            "equivalent",
        ),  # measurable, but inside the margin: margin comes first
        (1.01, 1.04, 0.06, 0.001, "same", "slower"),  # the corrected p takes equivalence away
        (0.99, 1.02, 0.06, 0.5, "same", "inconclusive"),
        (1.06, 1.10, 0.9, 0.05, "same", "slower"),
        (1.06, 1.10, 0.9, 0.051, "same", "inconclusive"),  # corrected p of the difference too large
        (0.85, 0.93, 0.9, 0.01, "userland", "faster"),
        (0.90, 1.10, 0.4, 0.4, "same", "inconclusive"),
        (1 / 1.05, 1.05, 0.05, 0.4, "same", "equivalent"),  # the margin itself is inside
        (0.99, 1.01, 0.0, 0.5, "different", "not comparable"),
        (1.50, 1.60, 1.0, 0.0, "different", "not comparable"),
        (0.99, 1.01, 0.0, 0.5, "unknown", "not comparable"),  # no evidence is no parity
    ],
)
def test_decide(ci_low, ci_high, p_equivalence, p_difference, parity, expected):
    assert decide(ci_low, ci_high, 0.05, p_equivalence, p_difference, parity) == expected


@pytest.mark.parametrize(
    ("verdict", "low", "high", "expected"),
    [
        ("equivalent", 1.01, 1.04, True),
        ("equivalent", 0.96, 0.99, True),
        ("equivalent", 0.99, 1.01, False),
        ("slower", 1.2, 1.3, False),
        ("not comparable", None, None, False),
    ],
)
def test_measurable(verdict, low, high, expected):
    assert measurable(verdict, low, high) is expected


@pytest.mark.parametrize(
    ("treatment", "reference", "expected"),
    [
        ("docker", "host", "isolation + userland"),
        ("chroot", "host", "userland"),
        ("chroot-userns", "host", "userland"),
        ("host", "docker", "isolation + userland"),
        ("docker", "chroot", "isolation"),
        ("docker-hardened", "chroot-userns", "isolation"),
        ("docker-pure", "docker", "options of the runtime"),
    ],
)
def test_label_says_what_differs_by_construction(treatment, reference, expected):
    assert treatment_label(treatment, reference) == expected
