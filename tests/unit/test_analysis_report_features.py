"""The page of a study with a ladder, a star and options, and of one with many metrics."""

import re

import pytest
import synthetic_study as synthetic
from test_analysis_report import Page

from tare.analysis import report
from tare.analysis.costs import what_costs
from tare.analysis.publish import from_blocks
from tare.analysis.view import attributed
from tare.workloads.registry import WORKLOADS

SVG = "<svg></svg>"
FIGURES = dict.fromkeys(report.FIGURES, SVG)


def data_of(blocks, of, folder):
    return from_blocks(of, synthetic.write_blocks(blocks, folder), False)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    of = synthetic.attribution(cells=[{"workload": "hpcc"}, {"workload": "train-torch-fcn5"}])
    return data_of(synthetic.attribution_blocks(of), of, tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def page(data):
    return Page(report.html(data, FIGURES))


def test_every_line_is_there_every_link_has_its_target_and_ids_are_unique(page, data):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    steps = [name for name in page.ids if name.startswith("step-")]
    assert len(steps) == sum(row["contrast"] != "runtime" for row in data.comparisons) == 9 * 14
    assert len([name for name in page.ids if name.startswith("verdict-")]) == 9 * 3


def test_what_costs_is_the_third_sentence_of_the_answer(page, data):
    said = page.text.replace("\u00a0", " ")
    assert what_costs(data).startswith("What costs, step by step from host to docker: seccomp (hpcc ")
    assert said.index("Docker against chroot") < said.index(what_costs(data)) < said.index("Noise floor:")


def test_the_figures_of_features_are_shown_where_there_are_features(data, tmp_path):
    assert {"figure-ladder", "figure-options"} <= set(Page(report.html(data, FIGURES)).ids)
    of = synthetic.attribution(cells=[{"workload": "startup"}], blocks=2, star=[], ladder=[])
    only = data_of(synthetic.attribution_blocks(of), of, tmp_path)
    found = Page(report.html(only, FIGURES)).ids
    assert ("figure-ladder" in found, "figure-options" in found) == (False, True)


def test_a_line_says_what_the_step_changes_and_what_an_interaction_means(data):
    group = next(one for one in attributed(data) if one.what == "HPL")
    assert [(line.contrast, line.label) for line in group.lines] == [
        ("ladder", "+ userland"),
        ("ladder", "+ mount namespace and overlay root"),
        ("ladder", "+ process and IPC namespaces"),
        ("ladder", "+ network namespace"),
        ("ladder", "+ cgroup"),
        ("ladder", "+ capabilities dropped"),
        ("ladder", "+ seccomp"),
        ("ladder", "+ engine"),
        ("star", "docker's seccomp"),
        ("star", "docker's network namespace"),
        ("star", "docker's overlay root"),
        ("option", "option: CPU quota"),
        ("option", "option: /dev/shm of 1 GiB"),
        ("interaction", "total ÷ product of 3 single effects"),
    ]
    assert group.lines[-1].explained == "the single effects add up to the total"
    assert {line.figure for line in group.lines} == {"ladder", "options"}
    told = {line.label for line in group.told}
    assert told == {"+ seccomp", "docker's seccomp", "option: CPU quota"}
    assert group.untold == "11 equivalent"


def test_what_chance_could_have_made_is_grey(data):
    html = report.html(data, FIGURES)
    noise = [line for group in attributed(data) for line in group.lines if line.noise]
    assert html.count('class="noise"') == len(noise) > 20


def test_markdown_names_what_leaves_the_noise(data):
    text = report.markdown(data)
    assert what_costs(data) in text
    line = next(one for one in text.splitlines() if one.startswith("| hpcc | HPL | + "))
    assert re.match(
        r"\| hpcc \| HPL \| \+ seccomp: ▲ slower \+11\.\d % \[\+11\.\d %, \+1[12]\.\d %\]; docker's seccomp: ▲ slower "
        r"\+14\.\d % .*; option: CPU quota: ▲ slower \+10\.\d % .* \| 11 equivalent \|$",
        line,
    )
    assert "\n\n\n" not in text


def test_a_study_without_comparisons_still_shows_its_ladder(tmp_path):
    of = synthetic.attribution(cells=[{"workload": "train-torch-fcn5"}], blocks=3, comparisons=[])
    data = data_of(synthetic.attribution_blocks(of), of, tmp_path)
    page = Page(report.html(data, FIGURES))
    assert "This study asks for no comparison." in page.text
    assert "What costs, step by step from host to docker: seccomp" in page.text.replace("\u00a0", " ")
    assert "steps" in page.ids
    assert {link[1:] for link in page.links} <= set(page.ids)


@pytest.fixture
def many(tmp_path, monkeypatch):
    """Nine cells of three layers, 27 metrics; a control of its own in one of them."""
    cells = []
    for number in range(9):
        name = f"made-{number}"
        monkeypatch.setitem(
            WORKLOADS, name, synthetic.workload(name, ("memory", "files", "network")[number % 3], 3)
        )
        cells.append({"workload": name})
    cells[8] |= {"runtimes": ["host", "docker"]}
    of = synthetic.study(cells=cells, blocks=3)
    made = {
        (cell.id, n): synthetic.block(
            of, cell, n, noise=0.001, costs={"docker": 1 + int(cell.id[-1]) % 3 / 10}
        )
        for cell in of.expand()
        for n in (1, 2, 3)
    }
    return data_of(made, of, tmp_path)


def test_many_metrics_are_folded_by_layer_below_a_table_at_a_glance(many):
    html = report.html(many, FIGURES)
    page = Page(html)
    assert page.open == []
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert html.count('<details class="layer"') == 3
    assert 'id="layer-1">' in html
    glance = html[html.index('<table class="stack glance">') :]
    glance = " ".join(Page(glance[: glance.index("</table>")]).text.split())
    assert glance.startswith(
        "Layer docker ÷ host docker ÷ chroot chroot ÷ host memory ≈ 9 ≈ 9 ≈ 9 files ▲ 9 most: made-"
    )
    # the cell that leaves chroot out has no such pair
    assert "network ▲ 9 most: made-" in glance
    assert glance.count("▲ 6") == 1


def test_the_control_is_named_where_it_is_another(many):
    assert "The control is chroot (in made-8: host), against itself" in report.markdown(many)


def test_markdown_of_many_metrics_is_folded_too_and_its_tables_are_whole(many):
    text = report.markdown(many)
    assert text.count("<details><summary>") == text.count("</details>") == 3
    tables = [line for line in text.splitlines() if line.startswith("|")]
    groups = []
    for line in tables:
        bars = len(re.findall(r"(?<!\\)\|", line))
        if line.startswith(("| cell |", "| layer |")):
            groups.append([bars])
        else:
            groups[-1].append(bars)
    assert all(len(set(group)) == 1 for group in groups)
    assert [len(group) for group in groups] == [5, 11, 11, 11]
    assert "\n\n\n" not in text


def test_few_metrics_are_open_and_have_no_glance(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)
    html = report.html(
        data_of({("s", n): synthetic.block(of, of.expand()[0], n) for n in (1, 2)}, of, tmp_path), {}
    )
    assert '<details class="layer" id="layer-1" open>' in html
    assert "glance" not in html[html.index("</style>") :]
