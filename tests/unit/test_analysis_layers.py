"""Verdicts by layer, worst first; warnings said once, alike ones together."""

import pytest
import synthetic_study as synthetic

from tare.analysis import layers, remarks, view
from tare.analysis.publish import from_blocks
from tare.workloads.registry import WORKLOADS


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Three layers: start-up slower, files mixed, compute equivalent."""
    monkeypatch.setitem(WORKLOADS, "made-files", synthetic.workload("made-files", "files", 3))
    monkeypatch.setitem(WORKLOADS, "made-kernel", synthetic.workload("made-kernel", "compute", 2, "flop/s"))
    cells = [{"workload": name} for name in ("made-files", "made-kernel", "startup")]
    of = synthetic.study(cells=cells, blocks=4)

    def change(run):
        for sample in run["samples"]:
            if (run["runtime"], sample["metric"]) == ("docker", "metric_2"):
                sample["value"] *= 1.5
            if (run["runtime"], sample["metric"], run["cell"]) == ("docker", "metric_1", "made-files"):
                sample["value"] *= 1.2

    made = {
        (cell.id, n): synthetic.block(of, cell, n, noise=0.001, costs={}, change=change)
        for cell in of.expand()
        for n in range(1, 5)
    }
    return from_blocks(of, synthetic.write_blocks(made, tmp_path), False)


def found(data):
    return layers.layers(view.groups(data), data.pair_names)


def test_layers_come_in_the_order_of_the_report_and_what_costs_most_comes_first(data):
    assert [(one.name, [(g.cell, g.what) for g in one.groups]) for one in found(data)] == [
        ("start-up", [("startup", "request to first instruction"), ("startup", "request to exit")]),
        ("compute", [("made-kernel", "operation 0"), ("made-kernel", "operation 1")]),
        (
            "files",
            [("made-files", "operation 2"), ("made-files", "operation 1"), ("made-files", "operation 0")],
        ),
    ]


def test_a_tally_counts_the_verdicts_of_a_pair_and_names_the_worst(data):
    files = found(data)[2]
    tally = files.tally("docker ÷ chroot")
    assert tally.counts == (("≈", "equivalent", 1), ("▲", "slower", 2))
    assert tally.brief == "≈ 1 ▲ 2"
    assert (tally.worst.cell, tally.worst.what) == ("made-files", "operation 2")
    assert files.tally("chroot ÷ host").worst is None
    assert files.tally("docker ÷ moon").brief == "–"


def test_a_layer_has_the_pairs_that_its_cells_compare(tmp_path):
    of = synthetic.study(
        cells=[{"workload": "startup", "runtimes": ["chroot", "docker"]}, {"workload": "hpcc"}], blocks=2
    )
    made = {(c.id, n): synthetic.block(of, c, n) for c in of.expand() for n in (1, 2)}
    data = from_blocks(of, synthetic.write_blocks(made, tmp_path), False)
    assert [(one.name, one.pairs) for one in found(data)] == [
        ("start-up", ("docker ÷ chroot",)),
        ("compute", ("docker ÷ host", "docker ÷ chroot", "chroot ÷ host")),
    ]


@pytest.mark.parametrize(
    ("rows", "order"),
    [
        (
            [
                ("equivalent", 0.99, 1.01),
                ("slower", 1.1, 3.0),
                ("slower", 1.2, 1.3),
                ("inconclusive", 0.5, 9.0),
            ],
            [2, 1, 3, 0],
        ),
        ([("faster", 0.5, 0.6), ("inconclusive", 0.9, 1.1), ("not comparable", None, None)], [1, 0, 2]),
    ],
)
def test_urgency_is_the_cost_that_is_sure_then_the_one_that_may_be(rows, order):
    keys = [view.urgency({"verdict": v, "ci_low": low, "ci_high": high}) for v, low, high in rows]
    assert sorted(range(len(rows)), key=lambda n: keys[n], reverse=True) == order


def test_warnings_that_differ_in_numbers_are_one_remark(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}, {"workload": "hpcc"}], blocks=3)

    def change(run):
        if run["runtime"] == "docker" and run["block"] == 2:
            speed = {"startup": 85.1, "hpcc": 85.2}[run["cell"]]
            run.update(
                status="invalid", reasons=[f"{speed} GB/s is above memory (11 GB/s); write the file first"]
            )

    made = {(c.id, n): synthetic.block(of, c, n, change=change) for c in of.expand() for n in (1, 2, 3)}
    data = from_blocks(of, synthetic.write_blocks(made, tmp_path), False)
    told = remarks.remarks(view.groups(data))
    one = next(remark for remark in told if "above memory" in remark.text)
    assert one.verdicts == 2 * 9
    assert [text.partition("(")[2][:16] for text in one.alike] == ["85.1 GB/s is abo", "85.2 GB/s is abo"]
    assert remarks.numbers(told)[one.alike[1]] == one.number
    # two usable blocks of three: the same words everywhere, no list of wordings
    few = next(remark for remark in told if "rests on" in remark.text)
    assert few.alike == ()
