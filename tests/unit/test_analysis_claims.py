"""How the claims of published studies are judged, and that nothing is said where nothing was measured."""

import pytest
import synthetic_study as synthetic

from tare.analysis import report
from tare.analysis.claims import CLAIMS, findings
from tare.analysis.publish import from_blocks

BY_ID = {claim.id: claim for claim in CLAIMS}


def rows(*verdicts):
    return [{"verdict": verdict} for verdict in verdicts]


@pytest.mark.parametrize(
    ("claim", "verdicts", "expected"),
    [
        ("X1", ["equivalent"], "supported here"),
        ("X1", ["equivalent", "equivalent", "slower"], "supported here"),  # “most”
        ("X1", ["equivalent", "slower"], "open"),
        ("X1", ["slower", "faster", "equivalent"], "contradicted here"),
        ("X1", ["inconclusive"], "open"),
        ("X7", ["equivalent", "faster"], "supported here"),
        ("X7", ["equivalent", "inconclusive"], "open"),
        ("X7", ["equivalent", "inconclusive", "slower"], "contradicted here"),
    ],
)
def test_judgement(claim, verdicts, expected):
    assert BY_ID[claim].judge(rows(*verdicts)) == expected


def measured(tmp_path, cost, **changes):
    of = synthetic.study(blocks=3, cells=[{"workload": "train-torch-fcn5"}], **changes)
    costs = {"host": 1.0, "chroot": 1.0, "docker": cost}
    blocks = {("c", n): synthetic.block(of, of.expand()[0], n, noise=0.002, costs=costs) for n in (1, 2, 3)}
    return from_blocks(of, synthetic.write_blocks(blocks, tmp_path), False)


@pytest.mark.parametrize(
    ("cost", "badge", "verdict"),
    [(0.8, "▼</span> faster", "supported here"), (1.2, "▲</span> slower", "contradicted here")],
)
def test_a_claim_from_blocks_to_page(tmp_path, cost, badge, verdict):
    data = measured(tmp_path, cost)
    found = findings(data)
    assert [(one.id, one.verdict) for one in found] == [("X7", verdict)]
    page = report.html(data, {})
    assert badge in page
    assert f"<strong>{verdict}</strong>" in page


def test_a_study_without_docker_says_nothing_of_claims(tmp_path):
    pair = [{"treatment": "chroot", "reference": "host"}]
    data = measured(tmp_path, 1.0, runtimes=["host", "chroot"], comparisons=pair)
    assert findings(data) == []
    assert "Claims of published studies" not in report.html(data, {})
