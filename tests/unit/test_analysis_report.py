"""The report: complete, self-contained, safe, and true also for studies that went wrong."""

import re
from html.parser import HTMLParser

import pytest
import synthetic_study as synthetic

from tare.analysis import report
from tare.analysis.answer import answer
from tare.analysis.claims import findings
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.notes import block_list, incidents, noise_floor
from tare.analysis.publish import from_blocks, publish
from tare.analysis.view import lines, numbered

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects text, references and ids, and checks that every element is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.ids, self.links, self.loads, self.open, self.tags = [], [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "xlink:href"):
                self.links.append(value)
            elif name in ("src", "srcset", "data", "action", "poster"):
                self.loads.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def study_data(blocks, of, folder, partial=False):
    return from_blocks(of, synthetic.write_blocks(blocks, folder), partial)


def standard(folder):
    of = synthetic.study()
    return study_data(synthetic.standard_blocks(of), of, folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return standard(tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def html(data, tmp_path_factory):
    return publish(data, tmp_path_factory.mktemp("page")).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html):
    found = Page(html)
    assert found.open == []
    return found


def test_page_needs_nothing_else(page, html):
    assert page.loads == []
    assert all(link.startswith("#") for link in page.links)
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert not re.search(r"@import|url\((?!#)|https?://", html)


def test_every_link_has_its_target_and_ids_are_unique(page):
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_all_five_figures_are_inside(page):
    assert page.tags.count("svg") == 5
    assert {f"figure-{name}" for name in report.FIGURES} <= set(page.ids)


def test_the_answer_comes_first(page, data):
    first, second = answer(data)
    assert first == (
        "In docker the work costs +2.1 % to +2.5 % against the host (isolation + userland): "
        "of 11 comparisons, 4 are equivalent within ±5 % and 7 not comparable."
    )
    assert second.startswith(
        "In docker the work costs +0.62 % to +3.8 % against chroot (isolation): of 11 comparisons, "
    )
    assert second.endswith(
        "; starting a process takes 21.2 ms on the host, 22.1 ms in chroot and 317 ms in docker (median)."
    )
    said = page.text.replace("\u00a0", " ")
    assert said.index(first) < said.index(second) < said.index("Verdicts")


def test_every_row_is_there_with_its_verdict(page, data):
    shown = lines(data)
    assert len(shown) == len(data.comparisons) == 39
    for line in shown:
        assert line.anchor in page.ids
    for verdict in ("equivalent", "slower", "inconclusive", "not comparable"):
        assert f"{VERDICT_MARK[verdict]} {verdict}" in page.text


def test_a_line_in_full(data):
    line = next(
        one
        for one in lines(data)
        if (one.cell, one.what, one.pair) == ("startup", "request to exit", "chroot ÷ host")
    )
    assert (line.cost, line.interval, line.verdict, line.explained) == (
        "+2.2 %",
        "[+1.0 %, +3.5 %]",
        "equivalent",
        "measurable: +2.2 %",
    )
    assert (line.label, line.control, line.blocks, line.figure) == (
        "userland",
        "−0.24 % [−1.2 %, +0.77 %]",
        "5 of 5",
        "startup",
    )
    assert line.remarks == (
        "chroot and host differ in userland: process.interpreter.version (3.11.9 ≠ 3.11.2)",
    )


def test_docker_on_host_is_labelled(data):
    labels = {line.pair: line.label for line in lines(data)}
    assert labels == {
        "docker ÷ chroot": "isolation",
        "chroot ÷ host": "userland",
        "docker ÷ host": "isolation + userland",
    }


def test_remarks_name_blocks_that_do_not_count_or_were_disturbed(data):
    remarks = numbered(lines(data))
    assert (
        "blocks 1–5 do not count: host: skipped (package hpcc is not installed; run: apt-get install hpcc)"
        in remarks
    )
    assert "block 3 does not count: docker: failed (out of memory: killed by the kernel (SIGKILL))" in remarks
    assert "block 4: disturbed in every attempt; the last attempt is kept and counts" in remarks
    assert "the noise floor [−5.8 %, +2.1 %] is wider than the margin ±5 %: raise `blocks`" in remarks
    assert list(remarks.values()) == list(range(1, len(remarks) + 1))


def test_nothing_that_went_wrong_is_hidden(page, data):
    found = [(one.kind, one.cell, one.runtime, one.blocks, one.runs) for one in incidents(data.runs)]
    assert found == [
        ("failed", "train-torch-alexnet", "docker", (3,), 1),
        ("skipped", "hpcc", "host", (1, 2, 3, 4, 5), 5),
        ("disturbed", "train-torch-fcn5", "chroot", (2, 4), 6),
        ("disturbed", "train-torch-fcn5", "docker", (2, 4), 3),
        ("disturbed", "train-torch-fcn5", "host", (2, 4), 3),
    ]
    for one in incidents(data.runs):
        assert one.reason in page.text


def test_claims_that_the_cells_speak_to(page, data):
    found = {one.id: one for one in findings(data)}
    assert sorted(found) == ["X1", "X7"]
    assert (
        found["X1"].measured
        == "docker ÷ chroot (isolation): hpcc hpl_flops +1.7 % [+0.15 %, +3.2 %] equivalent"
    )
    assert found["X1"].verdict == "supported here"
    assert found["X7"].measured.startswith(
        "docker ÷ host (isolation + userland): train-torch-fcn5 epoch_seconds +2.5 %"
    )
    assert found["X7"].claim in page.text


def test_how_to_reproduce_is_there(page):
    for text in (
        "seed 20260101",
        "snakemake --cores all --configfile study.yaml",
        "sha256:" + "ab" * 32,
        "cd" * 32,
        "ef" * 32,
        '"margin": 0.05',
        "Example CPU 2.1 GHz",
        "2026-01-02 03:05:35 UTC",
        "Benjamini–Hochberg",
    ):
        assert text in page.text


def test_hostile_texts_are_only_text(tmp_path):
    evil = '<script>alert("1")</script> | [x](javascript:1) `\n# heading'
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)
    blocks = {
        ("startup", n): synthetic.block(
            of, of.expand()[0], n, change=synthetic.fail("failed", evil, "docker")
        )
        for n in (1, 2)
    }
    data = study_data(blocks, of, tmp_path / "blocks")
    found = Page(report.html(data, {}))
    assert "script" not in found.tags
    assert '<script>alert("1")</script> | [x](javascript:1) `' in found.text
    summary = report.markdown(data)
    assert "\n# heading" not in summary
    assert r"\<script\>" in summary
    rows = [line for line in summary.splitlines() if line.startswith("| failed")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 7


def test_markdown_tables_are_whole(data):
    text = report.markdown(data)
    table = [line for line in text.splitlines() if line.startswith("|")]
    verdicts = [line for line in table if " ÷ " in line and not line.startswith(("| X1", "| X7"))]
    assert len(verdicts) == 39
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in verdicts} == {10}
    assert (
        "| startup | request to first instruction | docker ÷ chroot, isolation "
        "| × 14.3 | \\[× 14.2, × 14.5\\] | ▲ slower |"
    ) in text
    assert "| startup | request to first instruction | chroot ÷ host, userland | +5.0 % " in text
    assert "6. block 3 does not count: docker: failed" in text


def test_terminal_summary(data):
    text = report.terminal(data, "results/quick/report.html")
    assert max(map(len, text.splitlines())) <= 110
    assert text.startswith("Study quick, 20 of 20 blocks. In docker the work costs")
    assert "  request to first instruction  docker ÷ chroot  × 14.3   [× 14.2, × 14.5]    ▲ slower\n" in text
    assert "  skipped: hpcc in host, blocks 1–5 (5 runs): package hpcc is not installed" in text
    assert text.endswith("Report: results/quick/report.html\n")


def test_an_empty_study():
    data = from_blocks(synthetic.study(), [], partial=True)
    found = Page(report.html(data, {}))
    assert "partial, 0 of 20 blocks" in found.text
    assert "No block has been measured yet, so there is no answer." in found.text
    assert "Not measured: startup blocks 1–5; hpcc blocks 1–5;" in found.text
    assert "No comparison yet." in report.markdown(data)
    assert "No comparison yet." in report.terminal(data, "x")
    assert noise_floor(data) is None
    assert findings(data) == []


def test_a_partial_study_says_how_much_is_there(tmp_path):
    of = synthetic.study()
    some = {
        key: block
        for key, block in synthetic.standard_blocks(of).items()
        if key[0] == "startup" and key[1] < 4
    }
    data = study_data(some, of, tmp_path / "blocks", partial=True)
    assert answer(data)[0].startswith("Partial, 3 of 20 blocks: in docker starting costs × 6.")
    found = Page(report.html(data, {}))
    assert "partial, 3 of 20 blocks" in found.text
    assert "2 blocks of 5 not measured yet" in found.text
    assert "Not measured: startup blocks 4–5; hpcc blocks 1–5;" in found.text


def test_a_study_in_which_everything_failed(tmp_path):
    of = synthetic.study(blocks=2)

    def fail_all(run):
        run.update(
            status="failed",
            reasons=["no Docker engine answers; start it: systemctl start docker"],
            seconds_to_start=None,
            seconds_to_ready=None,
            seconds_total=None,
            fingerprint=None,
            image_digest=None,
        )

    blocks = {(c.id, n): synthetic.block(of, c, n, change=fail_all) for c in of.expand() for n in (1, 2)}
    data = study_data(blocks, of, tmp_path / "blocks")
    assert answer(data) == (
        "No verdict is possible: 39 comparisons, none comparable.",
        "32 of 32 runs gave no number, most often (32 times): "
        "no Docker engine answers; start it: systemctl start docker.",
    )
    found = Page(report.html(data, {}))
    assert found.text.count("✕ not comparable") >= 39
    assert findings(data) == []


def test_different_software_is_said_and_no_overhead(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=3)

    def other(run):
        if run["runtime"] == "docker":
            run["fingerprint"] = synthetic.fingerprint("docker", "startup", software={"hpcc": "1.4"})

    data = study_data(
        {("startup", n): synthetic.block(of, of.expand()[0], n, change=other) for n in (1, 2, 3)},
        of,
        tmp_path,
    )
    line = lines(data)[0]
    assert (line.pair, line.cost, line.interval, line.verdict) == (
        "docker ÷ chroot",
        "–",
        "",
        "not comparable",
    )
    assert line.explained == "different software or work: software.hpcc (1.5.0 ≠ 1.4)"
    assert (
        answer(data)[0]
        == "In docker against the host (isolation + userland) none of 2 comparisons is possible."
    )


def test_two_machines_are_told_apart(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)
    blocks = {
        (machine, n): synthetic.block(of, of.expand()[0], n, machine=machine)
        for machine in ("aaaa", "bbbb")
        for n in (1, 2)
    }
    data = study_data(blocks, of, tmp_path / "blocks")
    found = Page(report.html(data, {}))
    assert (
        "The blocks come from 2 machines. They are compared machine by machine and never mixed." in found.text
    )
    assert "on aaaa" in found.text
    assert "machine_id bbbb" in found.text
    assert answer(data)[0].startswith("On 2 machines, never mixed: ")
    assert "startup on bbbb" in report.terminal(data, "x")


def test_software_that_changed_between_blocks_is_a_warning(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)

    def other(run):
        run["worker_sha256"] = "99" * 32

    blocks = {
        ("startup", n): synthetic.block(of, of.expand()[0], n, change=other if n == 2 else None)
        for n in (1, 2)
    }
    warnings = lines(study_data(blocks, of, tmp_path))[0].warnings
    assert (
        f"docker: the worker changed between blocks ({'99' * 6}, {'cd' * 6}); measure them again" in warnings
    )
    assert "the interval rests on 2 blocks only: its width is itself uncertain; raise `blocks`" in warnings


def test_perfect_agreement_and_odd_controls_are_doubted(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=3)

    def exact(run):
        for sample in run["samples"]:
            sample["value"] = 1.1 if run["role"] == "control" else 1.0

    blocks = {("startup", n): synthetic.block(of, of.expand()[0], n, change=exact) for n in (1, 2, 3)}
    warnings = lines(study_data(blocks, of, tmp_path))[0].warnings
    assert any(
        text.startswith("all blocks gave exactly the same ratio: suspiciously perfect") for text in warnings
    )
    assert (
        "the control differs from itself, [+10.0 %, +10.0 %]: something other than the runtime acts on these blocks"
        in warnings
    )


def test_flags_that_do_not_disturb_are_remarks(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)

    def flag(run):
        run["flags"] = ["cache: unverified: the file system tells nothing"]

    blocks = {("startup", n): synthetic.block(of, of.expand()[0], n, change=flag) for n in (1, 2)}
    data = study_data(blocks, of, tmp_path)
    assert "cache: unverified: the file system tells nothing (4 runs)" in lines(data)[0].warnings
    assert {one.kind for one in incidents(data.runs)} == {"flagged"}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([3], "block 3"), ([5, 1, 2, 3], "blocks 1–3, 5"), ([1, 1], "block 1"), ([1, 3], "blocks 1, 3")],
)
def test_block_list(numbers, expected):
    assert block_list(numbers) == expected


def test_svg_ids_are_made_its_own():
    svg = (
        '<?xml version="1.0"?>\n<!DOCTYPE svg>\n'
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://x" width="1">'
        '<metadata>\n<a/></metadata><g id="a"/><use xlink:href="#a" clip-path="url(#c)"/></svg>\n'
    )
    assert report.inline_svg(svg, "epochs", "Epochs") == (
        '<svg role="img" aria-label="Epochs" width="1"><g id="epochs-a"/>'
        '<use xlink:href="#epochs-a" clip-path="url(#epochs-c)"/></svg>\n'
    )
