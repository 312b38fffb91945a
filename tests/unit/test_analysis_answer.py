"""The two sentences: verdict first, no estimate where there is no verdict."""

import re

import pytest
import synthetic_study as synthetic

from tare.analysis.answer import answer, tally
from tare.analysis.explained import blocks_advice
from tare.analysis.publish import from_blocks
from tare.analysis.view import groups


def study_with(folder, noise, costs=synthetic.COST, blocks=5, **changes):
    of = synthetic.study(blocks=blocks, **changes)
    made = {
        (cell.id, n): synthetic.block(of, cell, n, noise=noise, costs=costs)
        for cell in of.expand()
        for n in range(1, blocks + 1)
    }
    return from_blocks(of, synthetic.write_blocks(made, folder), False)


def test_no_verdict_is_said_first_and_no_estimate_is_quoted(tmp_path):
    data = study_with(
        tmp_path, noise=0.3, costs={}, cells=[{"workload": "hpcc"}, {"workload": "train-torch-fcn5"}]
    )
    assert {row["verdict"] for row in data.comparisons} == {"inconclusive"}
    assert answer(data) == (
        "No verdict yet on steady work and the first epoch in docker against the host (isolation + userland): "
        "the intervals reach beyond the margin ±5 % (all 9 comparisons are inconclusive).",
        "No verdict yet on steady work and the first epoch in docker against chroot (isolation): "
        "the intervals reach beyond the margin ±5 % (all 9 comparisons are inconclusive).",
    )


def test_open_work_comes_before_what_is_decided(tmp_path):
    data = study_with(tmp_path, noise=0.1, cells=[{"workload": "startup"}, {"workload": "hpcc"}])
    first, second = answer(data)
    assert re.fullmatch(
        r"No verdict yet on steady work in docker against the host \(isolation \+ userland\): the intervals reach "
        r"beyond the margin ±5 % \(all 7 comparisons are inconclusive\); starting is slower \(2 comparisons, "
        r"intervals within \[× [\d.]+, × [\d.]+\], median to the first instruction [\d.]+ ms on the host and "
        r"[\d.]+ ms in docker\)\.",
        first,
    )
    assert "median" not in second


def test_equivalent_work_gives_the_widest_bounds(tmp_path):
    data = study_with(
        tmp_path, noise=0.001, cells=[{"workload": "train-torch-fcn5"}, {"workload": "train-torch-alexnet"}]
    )
    rows = [row for row in data.comparisons if (row["treatment"], row["reference"]) == ("docker", "host")]
    assert {row["verdict"] for row in rows} == {"equivalent"}
    steady = [row for row in rows if row["phase"] == "steady"]
    low, high = min(row["ci_low"] for row in steady), max(row["ci_high"] for row in steady)
    bounds = f"[+{(low - 1) * 100:.1f} %, +{(high - 1) * 100:.1f} %]"
    assert answer(data)[0].startswith(
        "Docker against the host (isolation + userland): steady work is equivalent within ±5 % "
        f"(2 comparisons, intervals within {bounds}); the first epoch is equivalent within ±5 % (2 comparisons, "
    )


def row(verdict, ratio=1.0, half=0.01, metric="hpl_flops", phase="steady"):
    return {
        "verdict": verdict,
        "ratio": ratio,
        "ci_low": ratio - half,
        "ci_high": ratio + half,
        "margin": 0.05,
        "cell": "hpcc",
        "workload": "hpcc",
        "metric": metric,
        "phase": phase,
    }


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("slower", 1.2)], "the one comparison is slower (hpcc HPL [+19.0 %, +21.0 %])"),
        ([row("inconclusive")] * 2, "all 2 comparisons are inconclusive"),
        (
            [row("inconclusive"), row("slower", 1.2), row("faster", 0.8, metric="ptrans")],
            "1 of 3 comparisons is slower (hpcc HPL [+19.0 %, +21.0 %]), "
            "1 faster (hpcc PTRANS [−21.0 %, −19.0 %]) and 1 inconclusive",
        ),
        (
            [row("slower", 1.2)] * 3 + [row("equivalent")],
            "1 of 4 comparisons is equivalent within ±5 % (interval [−1.0 %, +1.0 %]) "
            "and 3 slower (intervals within [+19.0 %, +21.0 %])",
        ),
    ],
)
def test_tally(rows, expected):
    assert tally(rows) == expected


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (3, "about 3 blocks would decide"),
        (50, "about 50 blocks would decide"),
        (51, "more blocks will hardly decide: the noise is too large (about 51 needed)"),
        (None, "more blocks will hardly decide: the noise is too large (over 10000 needed)"),
    ],
)
def test_blocks_advice(needed, expected):
    assert blocks_advice(needed) == expected


def test_intervals_that_the_corrected_p_does_not_confirm_are_explained(tmp_path):
    data = study_with(tmp_path, noise=0.02, blocks=2, costs={"docker": 1.3}, cells=[{"workload": "hpcc"}])
    hpl, _, chroot = groups(data)[0].lines
    assert (hpl.pair, hpl.verdict, hpl.interval) == ("docker ÷ host", "inconclusive", "[+9.4 %, +53.2 %]")
    assert hpl.explained == (
        f"the interval alone would decide, but the corrected p is {hpl.p_difference}; about 3 blocks would decide"
    )
    assert (chroot.pair, chroot.interval) == ("chroot ÷ host", "[−2.2 %, +0.89 %]")
    assert chroot.explained.startswith(
        f"the interval alone would decide, but the corrected p is {chroot.p_equivalence}; "
    )
    assert hpl.p_difference != hpl.p_equivalence
    assert hpl.brief == "? inconclusive [+9.4 %, +53.2 %], 3 blocks"
    assert answer(data)[0] == (
        "No verdict yet on steady work in docker against the host (isolation + userland): most intervals alone "
        "would decide, but the corrected p values do not (all 7 comparisons are inconclusive)."
    )


def test_a_study_that_asks_for_no_comparison_says_so(tmp_path):
    data = study_with(
        tmp_path, noise=0.01, comparisons=[], runtimes=["host"], cells=[{"workload": "startup"}]
    )
    assert answer(data)[0] == "This study asks for no comparison."
