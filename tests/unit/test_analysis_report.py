"""The report: complete, self-contained, safe, and true also for studies that went wrong."""

import re
from html.parser import HTMLParser

import pytest
import synthetic_study as synthetic

from tare.analysis import report
from tare.analysis.answer import answer
from tare.analysis.claims import findings
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.incidents import incidents
from tare.analysis.notes import block_list, noise_floor
from tare.analysis.publish import from_blocks, publish
from tare.analysis.remarks import remarks
from tare.analysis.terminal import terminal
from tare.analysis.view import groups

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
    return publish(data, tmp_path_factory.mktemp("page"), pngs=False).read_text(encoding="utf-8")


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


def test_medians_stand_beside_the_ratios(page):
    assert "hpcc : HPL median host – , chroot 92.1 Gflop/s , docker 89.0 Gflop/s ; control" in page.text
    assert "startup : request to exit median host 51.4 ms , chroot 53.3 ms" in page.text


def test_print_opens_what_is_folded_and_keeps_tables(html):
    style = html[html.index("<style>") : html.index("</style>")]
    printed = style[style.index("@media print") :]
    assert (
        "details::details-content { content-visibility: visible; display: block; height: auto; }" in printed
    )
    # cards are for narrow screens; paper is narrow too, and keeps the table
    assert re.findall(r"@media ([^{]+) {", style) == [
        "screen and (max-width: 60rem)",
        "screen and (max-width: 40rem)",
        "print",
    ]


def test_what_is_folded_is_said_in_words_outside(html):
    unfolded = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert html.count("<details>") == 3  # userland, incidents, config
    text = Page(unfolded).text
    assert "12 of 28 host, chroot, docker; blocks 2, 4 other processes used 23 % of the CPU time" in text
    assert "the interpreter build (3.11.9 ≠ 3.11.2) differs." in text


def test_every_wide_thing_scrolls_in_its_own_box(html):
    assert (
        len(re.findall(r'<div class="scroll">(?:<svg|<table)', html)) == 6
    )  # five figures, one list of fields
    assert len(re.findall(r"<table(?! class=\"(?:stack|facts|fields))", html)) == 0


def test_the_figures_that_the_study_has_something_for_are_inside(page):
    assert page.tags.count("svg") == 5
    found = {name for name in page.ids if name.startswith("figure-") and "_" not in name}
    assert found & {f"figure-{name}" for name in report.FIGURES} == {
        f"figure-{name}" for name in ("overhead", "blocks", "epochs", "startup", "breakdown")
    }


def lines(data):
    return [line for group in groups(data) for line in group.lines]


def test_the_answer_comes_first(page, data):
    first, second = answer(data)
    assert first == (
        "Docker against the host (isolation + userland): in steady work 2 of 9 comparisons are equivalent "
        "within ±5 % (intervals within [+0.34 %, +4.0 %]) and 7 not comparable; the first epoch is equivalent "
        "within ±5 % (2 comparisons, intervals within [+0.34 %, +3.9 %]); starting is slower (2 comparisons, "
        "intervals within [× 6.72, × 15.2], median to the first instruction 21.2 ms on the host and 319 ms in "
        "docker)."
    )
    assert second == (
        "Docker against chroot (isolation): in steady work 6 of 9 comparisons are equivalent within ±5 % "
        "(intervals within [−1.4 %, +4.0 %]) and 3 inconclusive; the first epoch is equivalent within ±5 % "
        "(2 comparisons, intervals within [−1.0 %, +4.0 %]); starting is slower (2 comparisons, intervals "
        "within [× 6.57, × 14.5])."
    )
    said = page.text.replace("\u00a0", " ")
    assert said.index(first) < said.index(second) < said.index("Disturbed: 4 of 80 runs that count")
    assert said.index("Disturbed: 4 of 80") < said.index("Cost ratio of the first")


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
    assert (line.label, line.blocks, line.figure, line.warnings) == ("userland", "5 of 5", "startup", ())
    assert line.brief == "≈ equivalent +2.2 % [+1.0 %, +3.5 %]"


def test_a_group_in_full(data):
    group = next(one for one in groups(data) if (one.cell, one.what) == ("hpcc", "HPL"))
    assert group.medians == (("host", "–"), ("chroot", "92.1 Gflop/s"), ("docker", "89.0 Gflop/s"))
    assert group.control == ("−0.74 %", "[−1.8 %, +0.33 %]")
    assert group.warnings == ()
    assert [line.pair for line in group.lines] == ["docker ÷ host", "docker ÷ chroot", "chroot ÷ host"]
    assert [line.brief for line in group.lines] == [
        "✕ not comparable (0 usable blocks, 2 are needed)",
        "≈ equivalent +1.7 % [+0.15 %, +3.2 %]",
        "✕ not comparable (0 usable blocks, 2 are needed)",
    ]


def test_a_difference_says_whether_it_is_beyond_the_margin(data):
    explained = {
        (line.cell, line.what, line.pair): line.explained for line in lines(data) if line.verdict == "slower"
    }
    first = ("startup", "request to first instruction")
    assert explained[(*first, "docker ÷ host")] == "by more than the margin ±5 %"
    assert explained[(*first, "chroot ÷ host")] == "perhaps by less than the margin ±5 %"  # [+3.8 %, +6.3 %]


def test_docker_on_host_is_labelled(data):
    labels = {line.pair: line.label for line in lines(data)}
    assert labels == {
        "docker ÷ chroot": "isolation",
        "chroot ÷ host": "userland",
        "docker ÷ host": "isolation + userland",
    }


def test_warnings_are_said_once_with_how_many_verdicts_they_concern(page, data):
    found = remarks(groups(data))
    assert [one.number for one in found] == [1, 2, 3, 4]
    assert {one.text: one.verdicts for one in found} == {
        "blocks 1–5 do not count: host: skipped (package hpcc is not installed; run: apt-get install hpcc)": 14,
        "the noise floor (the control's interval) is wider than the margin ±5 %: raise `blocks`": 3,
        "block 4: disturbed in every attempt; the last attempt is kept and counts": 6,
        "block 3 does not count: docker: failed (out of memory: killed by the kernel (SIGKILL))": 4,
    }
    assert "raise blocks (3 of 39 verdicts)" in page.text
    assert "The whole list: 1 field " in page.text


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
        runs = "1 run" if one.runs == 1 else f"{one.runs} runs"
        assert (
            f"{one.kind}: {one.cell} in {one.runtime}, {block_list(one.blocks)} ({runs}): {one.reason}"
            in page.text
        )


def test_claims_that_the_cells_speak_to(page, data):
    found = {one.id: one for one in findings(data)}
    assert sorted(found) == ["X1", "X7"]
    assert (
        found["X1"].measured == "docker ÷ chroot (isolation): hpcc HPL: equivalent +1.7 % [+0.15 %, +3.2 %]"
    )
    assert found["X1"].verdict == "supported here"
    assert found["X7"].measured.startswith(
        "docker ÷ host (isolation + userland): train-torch-fcn5 first epoch: equivalent +2.5 % ["
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
    told = [line for line in summary.splitlines() if line.startswith("- failed")]
    assert told == [
        "- failed: startup: 2 of 8 runs (docker; blocks 1–2), "
        r'\<script>alert("1")\</script> \| \[x](javascript:1) \` # heading'
    ]


def test_markdown_tables_are_whole(data):
    text = report.markdown(data)
    verdicts = [line for line in text.splitlines() if line.startswith(("| startup", "| hpcc", "| train"))]
    assert len(verdicts) == 13
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in verdicts} == {8}
    assert (
        "| cell | what | docker ÷ host | docker ÷ chroot | chroot ÷ host | control | medians |"
        "\n|---|---|---|---|---|---|---|\n"
        "| startup | request to first instruction | ▲ slower × 15.0 [× 14.9, × 15.2] | ▲ slower × 14.3 "
        "[× 14.2, × 14.5] | ▲ slower +5.0 % [+3.8 %, +6.3 %] | −0.24 % [−1.2 %, +0.77 %] "
        "| host 21.2 ms, chroot 22.6 ms, docker 319 ms |\n"
    ) in text


def test_markdown_is_short_and_has_no_needless_escapes(data):
    text = report.markdown(data)
    assert len(text.splitlines()) <= 60
    assert "\\" not in text
    assert "\n\n\n" not in text
    for heading in ("# Study", "## Verdicts", "## Not as planned", "## Claims"):
        assert f"\n\n{heading}" in f"\n\n{text}"


def test_an_empty_study():
    data = from_blocks(synthetic.study(), [], partial=True)
    found = Page(report.html(data, {}))
    assert "partial, 0 of 20 blocks" in found.text
    assert "No block has been measured yet, so there is no answer." in found.text
    assert "Not measured: startup blocks 1–5; hpcc blocks 1–5;" in found.text
    assert "No comparison yet." in report.markdown(data)
    assert "No comparison yet." in terminal(data, "x")
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
    assert answer(data)[0].startswith(
        "Partial, 3 of 20 blocks: docker against the host (isolation + userland): starting is slower (2 comparisons, "
    )
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
        f"No verdict is possible: {len(data.comparisons)} comparisons, none comparable.",
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
        "docker ÷ host",
        "–",
        "",
        "not comparable",
    )
    assert line.explained == "different software or work: software.hpcc (1.5.0 ≠ 1.4)"
    assert (
        answer(data)[0]
        == "Docker against the host (isolation + userland): none of 2 comparisons is possible."
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
    assert "startup on bbbb" in terminal(data, "x")


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
    group = groups(study_data(blocks, of, tmp_path))[0]
    assert group.lines[0].warnings == (
        "all blocks gave exactly the same ratio: suspiciously perfect, look at the samples before believing it",
    )
    assert group.control == ("+10.0 %", "[+10.0 %, +10.0 %]")
    assert group.warnings == (
        "the control differs from itself: something other than the runtime acts on these blocks",
        "the noise floor (the control's interval) is wider than the margin ±5 %: raise `blocks`",
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


def test_code_in_remarks_is_marked_and_nothing_else_becomes_markup():
    assert report.code("raise `a<b`, not <i>`</i>") == "raise <code>a&lt;b</code>, not &lt;i&gt;`&lt;/i&gt;"


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
