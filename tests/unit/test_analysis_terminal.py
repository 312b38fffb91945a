"""The summary on the terminal: short, narrow, and the same verdicts as in the report."""

import synthetic_study as synthetic

from tare.analysis import terminal
from tare.analysis.costs import what_costs
from tare.analysis.publish import from_blocks
from tare.workloads.registry import WORKLOADS


def data_of(blocks, of, folder):
    return from_blocks(of, synthetic.write_blocks(blocks, folder), False)


def test_the_standard_study(tmp_path):
    of = synthetic.study()
    text = terminal.terminal(
        data_of(synthetic.standard_blocks(of), of, tmp_path), "results/quick/report.html"
    )
    lines = text.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    assert "\u00a0" not in text
    assert lines[:2] == [
        "Study quick, 20 of 20 blocks.",
        "Docker against the host (isolation + userland): in steady work 2 of 9 comparisons are equivalent",
    ]
    assert lines[lines.index("hpcc") - 6 : lines.index("hpcc") + 3] == [
        "      docker ÷ host           docker ÷ chroot         chroot ÷ host           control",
        "startup",
        "  request to first instruction: host 21.2 ms, chroot 22.6 ms, docker 319 ms",
        "    ▲ [× 14.9, × 15.2]      ▲ [× 14.2, × 14.5]      ▲ [+3.8 %, +6.3 %]        [−1.2 %, +0.77 %]",
        "  request to exit: host 51.4 ms, chroot 53.3 ms, docker 349 ms",
        "    ▲ [× 6.72, × 6.87]      ▲ [× 6.57, × 6.72]      ≈ [+1.0 %, +3.5 %]        [−1.2 %, +0.77 %]",
        "hpcc",
        "  HPL: host –, chroot 92.1 Gflop/s, docker 89.0 Gflop/s",
        "    ✕ not comparable        ≈ [+0.15 %, +3.2 %]     ✕ not comparable          [−1.8 %, +0.33 %]",
    ]
    assert lines[-9:] == [
        "Not as planned:",
        "  failed: train-torch-alexnet: 1 of 20 runs (docker; block 3), out of memory: killed by the kernel",
        "    (SIGKILL)",
        "  skipped: hpcc: 5 of 20 runs (host; blocks 1–5), package hpcc is not installed; run: apt-get",
        "    install hpcc",
        "  disturbed: train-torch-fcn5: 12 of 28 runs (host, chroot, docker; blocks 2, 4), other processes",
        "    used 23 % of the CPU time (limit 10 %); close them and measure again",
        "",
        "Report: results/quick/report.html",
    ]


def test_a_legend_explains_every_sign(tmp_path):
    of = synthetic.study(margin=0.03)
    text = " ".join(terminal.terminal(data_of(synthetic.standard_blocks(of), of, tmp_path), "x").split())
    for sign in ("≈ equivalent within ±3 %", "▲ slower", "▼ faster", "? inconclusive", "✕ not comparable"):
        assert text.count(f"{sign},") + text.count(f"{sign}.") == 1


def test_a_long_list_of_troubles_is_cut_and_counted(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=20)

    def fail(run):
        run.update(status="failed", reasons=[f"reason {run['block']}: " + "many words " * 40])

    blocks = {("startup", n): synthetic.block(of, of.expand()[0], n, change=fail) for n in range(1, 21)}
    told = terminal.troubles(data_of(blocks, of, tmp_path))
    assert len(told) == 12
    assert told[0] == "Not as planned:"
    assert told[1].startswith(
        "  failed: startup: 4 of 80 runs (host, chroot, docker; block 1), reason 1: many"
    )
    assert told[2].endswith(" …")
    assert told[-1] == "  … and 15 more in the report"  # five of two lines each
    assert max(map(len, told)) <= 100


def test_just_as_many_troubles_as_fit_are_all_told(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=11)

    def fail(run):
        run.update(status="failed", reasons=[f"number {run['block']}"])

    blocks = {("startup", n): synthetic.block(of, of.expand()[0], n, change=fail) for n in range(1, 12)}
    told = terminal.troubles(data_of(blocks, of, tmp_path))
    assert len(told) == 12
    assert told[-1] == "  failed: startup: 4 of 44 runs (host, chroot, docker; block 11), number 11"


def test_without_trouble_nothing_is_said_of_it(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)
    data = data_of({("startup", n): synthetic.block(of, of.expand()[0], n) for n in (1, 2)}, of, tmp_path)
    assert terminal.troubles(data) == []
    assert "Not as planned" not in terminal.terminal(data, "x")


def test_more_than_four_columns_are_folded(tmp_path):
    pairs = [("docker", "host"), ("docker", "chroot"), ("chroot", "host"), ("docker-pure", "host")]
    of = synthetic.study(
        cells=[{"workload": "startup"}],
        blocks=2,
        runtimes=["host", "chroot", "docker", "docker-pure"],
        comparisons=[{"treatment": a, "reference": b} for a, b in pairs],
    )
    data = data_of({("startup", n): synthetic.block(of, of.expand()[0], n) for n in (1, 2)}, of, tmp_path)
    lines = terminal.terminal(data, "x").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("      docker ÷ host"))
    assert lines[at].endswith("   docker-pure ÷ host")
    assert lines[at + 1 : at + 3] == ["      control", "startup"]
    assert max(map(len, lines)) <= 100


def test_long_names_of_runtimes_get_wider_columns(tmp_path):
    of = synthetic.study(
        cells=[{"workload": "startup"}],
        blocks=2,
        runtimes=["chroot-userns", "docker-hardened", "docker"],
        comparisons=[
            {"treatment": "docker-hardened", "reference": "chroot-userns"},
            {"treatment": "docker-hardened", "reference": "docker"},
        ],
    )
    data = data_of({("startup", n): synthetic.block(of, of.expand()[0], n) for n in (1, 2)}, of, tmp_path)
    lines = terminal.terminal(data, "x").splitlines()
    at = lines.index("startup")
    assert lines[at - 2 : at] == [
        "      docker-hardened ÷ chroot-userns    docker-hardened ÷ docker",
        "      control",
    ]
    assert lines[at + 2 : at + 4] == [
        "    ≈ [−0.82 %, +0.62 %]               ? [−10.7 %, +1.6 %]",
        "      [−2.4 %, +2.1 %]",
    ]
    assert max(map(len, lines)) <= 100


def test_of_many_metrics_the_layers_are_counted_and_only_the_worst_are_shown(tmp_path, monkeypatch):
    for number, layer in enumerate(("files", "system calls", "memory")):
        monkeypatch.setitem(WORKLOADS, f"made-{number}", synthetic.workload(f"made-{number}", layer, 6))
    of = synthetic.study(cells=[{"workload": f"made-{number}"} for number in range(3)], blocks=5)
    costs = {"made-0": 1.3, "made-1": 1.2, "made-2": 1.0}
    blocks = {
        (c.id, n): synthetic.block(of, c, n, noise=0.001, costs={"docker": costs[c.id]})
        for c in of.expand()
        for n in range(1, 6)
    }
    text = terminal.terminal(data_of(blocks, of, tmp_path), "x")
    lines = text.splitlines()
    at = lines.index("memory (6 metrics)")
    assert lines[at : at + 6] == [
        "memory (6 metrics)",
        "      docker ÷ host: ≈ 6              docker ÷ chroot: ≈ 6            chroot ÷ host: ≈ 6",
        "system calls (6 metrics)",
        "      docker ÷ host: ▲ 6              docker ÷ chroot: ▲ 6            chroot ÷ host: ≈ 6",
        "files (6 metrics)",
        "      docker ÷ host: ▲ 6              docker ÷ chroot: ▲ 6            chroot ÷ host: ≈ 6",
    ]
    assert lines[at + 7] == "What costs most:"
    shown = [line for line in lines if line.startswith("  operation")]
    assert len(shown) == terminal.MOST_METRICS
    assert lines.index("made-0") < lines.index("made-1")
    assert "… and 10 metrics more in the report" in lines
    assert max(map(len, lines)) <= 100


def test_the_last_sentence_of_the_answer_is_there(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=3)
    data = data_of({("startup", n): synthetic.block(of, of.expand()[0], n) for n in (1, 2, 3)}, of, tmp_path)
    text = " ".join(terminal.terminal(data, "x").split())
    assert what_costs(data) in text
    assert what_costs(data).startswith(
        "Layer by layer, docker against chroot (isolation) is slower in start-up"
    )


def test_a_cell_without_a_pair_has_a_dash_in_its_column(tmp_path):
    of = synthetic.study(
        cells=[{"workload": "startup"}, {"workload": "hpcc", "runtimes": ["chroot", "docker"]}], blocks=2
    )
    blocks = {(c.id, n): synthetic.block(of, c, n) for c in of.expand() for n in (1, 2)}
    lines = terminal.terminal(data_of(blocks, of, tmp_path), "x").splitlines()
    at = lines.index("hpcc")
    assert lines[at + 1].startswith("  HPL: chroot ")
    assert [lines[at + 2][column : column + 3] for column in (4, 28, 52)] == ["  –", "≈ [", "  –"]
