"""How the claims of published studies are judged, and that nothing is said where nothing was measured."""

import pytest
import synthetic_study as synthetic

from tare.analysis import report
from tare.analysis.claims import CLAIMS, findings
from tare.analysis.publish import from_blocks
from tare.workloads.registry import WORKLOADS

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
        ("X2", ["equivalent", "equivalent", "faster"], "supported here"),
        ("X3", ["slower", "faster"], "contradicted here"),
        ("X4", ["faster", "faster", "equivalent"], "supported here"),
        ("X4", ["equivalent"], "contradicted here"),  # better was claimed
        ("X4", ["slower", "faster"], "open"),
        ("X4", ["inconclusive", "equivalent"], "open"),
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


@pytest.mark.parametrize(
    ("workload", "metric", "expected"),
    [
        ("hpcc", "hpl_flops", ["X1"]),
        ("hpcc", "stream_triad", []),
        ("hpl", "whatever", ["X1"]),
        ("hpcg", "hpcg_flops", ["X1"]),
        ("gpu-copy", "device_copy", ["X2"]),
        ("io-direct-sequential", "bytes_per_second", ["X3"]),
        ("fio-seqread", "iops", ["X3"]),
        ("io-write", "bytes_per_second", ["X3"]),
        ("io-cached-random", "latency", ["X4"]),
        ("fio-randwrite", "iops", ["X4"]),
        ("files-small", "create", []),
        ("train-torch-lstm", "step_seconds", ["X7"]),
        ("startup", "start_seconds", []),
    ],
)
def test_which_workloads_speak_to_which_claim(workload, metric, expected):
    assert [one.id for one in CLAIMS if one.speaks({"workload": workload, "metric": metric})] == expected


def gpu_study(tmp_path, monkeypatch, status):
    monkeypatch.setitem(WORKLOADS, "gpu-copy", synthetic.workload("gpu-copy", "gpu", 1, "B/s"))
    of = synthetic.study(blocks=2, cells=[{"workload": "gpu-copy"}])

    def change(run):
        if status != "ok":
            run.update(status=status, reasons=["this machine has no GPU; nothing to do"])

    blocks = {("c", n): synthetic.block(of, of.expand()[0], n, change=change) for n in (1, 2)}
    return from_blocks(of, synthetic.write_blocks(blocks, tmp_path), False)


def test_a_claim_whose_runs_were_all_skipped_stands_there_with_the_reason(tmp_path, monkeypatch):
    found = findings(gpu_study(tmp_path, monkeypatch, "skipped"))
    assert [(one.id, one.measured, one.verdict) for one in found] == [
        ("X2", "no number, skipped: this machine has no GPU; nothing to do", "not measured")
    ]


def test_what_failed_says_nothing_of_a_claim(tmp_path, monkeypatch):
    assert findings(gpu_study(tmp_path, monkeypatch, "failed")) == []


def test_many_rows_are_counted(tmp_path, monkeypatch):
    monkeypatch.setitem(WORKLOADS, "fio-randread", synthetic.workload("fio-randread", "files", 8))
    of = synthetic.study(blocks=3, cells=[{"workload": "fio-randread"}])
    blocks = {
        ("c", n): synthetic.block(of, of.expand()[0], n, noise=0.001, costs={"docker": 0.8})
        for n in (1, 2, 3)
    }
    found = findings(from_blocks(of, synthetic.write_blocks(blocks, tmp_path), False))
    assert [(one.id, one.verdict) for one in found] == [("X4", "supported here")]
    assert found[0].measured.startswith(
        "docker ÷ host (isolation + userland): all 8 comparisons are faster (intervals within [−20."
    )


def test_a_step_of_the_ladder_is_no_evidence_for_a_claim(tmp_path):
    of = synthetic.attribution(cells=[{"workload": "hpcc"}], blocks=3, comparisons=[])
    data = from_blocks(of, synthetic.write_blocks(synthetic.attribution_blocks(of), tmp_path), False)
    assert findings(data) == []
