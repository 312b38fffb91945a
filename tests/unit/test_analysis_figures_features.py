"""The figures ladder and options, and the others when a study has many metrics or runtimes."""

from itertools import pairwise

import matplotlib as mpl
import pytest
import synthetic_study as synthetic
from test_analysis_figures import all_text, drawn, overlapping, texts

from tare.analysis import report
from tare.analysis.figures import blocks as blocks_figure
from tare.analysis.figures import breakdown, epochs, ladder, options, overhead, startup, style
from tare.analysis.publish import from_blocks
from tare.workloads.declaration import LAYERS
from tare.workloads.registry import WORKLOADS


def data_of(blocks, of, folder):
    return from_blocks(of, synthetic.write_blocks(blocks, folder), False)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    of = synthetic.attribution(cells=[{"workload": "hpcc"}, {"workload": "train-torch-fcn5"}], blocks=4)
    return data_of(synthetic.attribution_blocks(of), of, tmp_path_factory.mktemp("attribution"))


@pytest.fixture(scope="module")
def figure(data):
    """The ladder of ``data``."""
    return ladder.draw(data)


def panel(figure, title):
    return next(axes for axes in figure.axes if axes.get_title(loc="left") == title)


def bars(axes):
    return [one for one in axes.patches if isinstance(one, mpl.patches.Rectangle)]


def test_a_step_within_noise_is_hollow_and_the_others_say_their_verdict(data, figure):
    axes = panel(figure, "train-torch-fcn5\nsteady training step")
    rows = [
        row
        for row in data.comparisons
        if (row["contrast"], row["cell"], row["phase"]) == ("ladder", "train-torch-fcn5", "steady")
    ]
    white = mpl.colors.to_rgba("white")
    hollow = [bar.get_facecolor() == white for bar in bars(axes)]
    noise = [
        row["ci_low"] <= 1 <= row["ci_high"]
        or (row["noise_ci_low"] <= row["ci_low"] and row["ci_high"] <= row["noise_ci_high"])
        for row in rows
    ]
    assert hollow == [*noise, False]  # the total last
    assert noise[3] is False
    assert noise[6] is False
    assert True in noise
    orange = mpl.colors.to_rgba("#D55E00")
    assert bars(axes)[6].get_facecolor() == orange  # seccomp, +11 %


def test_bars_start_where_the_one_before_ended(figure):
    axes = panel(figure, "hpcc\nHPL")
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars(axes)]
    for (_, end), (start, _) in pairwise(ends[:-1]):
        assert start == pytest.approx(end)
    assert ends[-1] == (0.0, pytest.approx(ends[-2][1]))


def test_the_lines_of_a_panel_are_named_once_for_a_row_of_panels(figure):
    first, second = panel(figure, "hpcc\nHPL"), panel(figure, "hpcc\nDGEMM (star)")
    assert [" ".join(label.get_text().split()) for label in first.get_yticklabels()] == [
        "+ userland",
        "+ mount namespace and overlay root",
        "+ process and IPC namespaces",
        "+ network namespace",
        "+ cgroup",
        "+ capabilities dropped",
        "+ seccomp",
        "+ engine",
        "total: docker ÷ host",
        "docker's seccomp",
        "docker's network namespace",
        "docker's overlay root",
        "total ÷ product of these",
    ]
    assert {label.get_text() for label in second.get_yticklabels()} == {""}


def test_a_cell_with_many_metrics_shows_six_and_the_caption_says_so(figure):
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert sum(title.startswith("hpcc\n") for title in titles) == 6
    assert "At most 6 metrics a cell" in all_text(figure)


def test_a_step_without_a_number_says_so(tmp_path):
    of = synthetic.attribution(cells=[{"workload": "train-torch-fcn5"}], blocks=2)

    def change(run):
        if run["runtime"] == "cgroup":
            run.update(status="skipped", reasons=["no cgroup"])

    figure = ladder.draw(data_of(synthetic.attribution_blocks(of, change=change), of, tmp_path))
    assert texts(figure).count("✕ not comparable") == 4  # two steps, two metrics
    assert "total: docker ÷ capabilities" in all_text(figure)


@pytest.mark.parametrize("draw", [ladder.draw, options.draw])
def test_words_do_not_touch(draw, data):
    figure = draw(data)
    renderer = drawn(figure)
    for axes in figure.axes:
        labels = [text for text in axes.get_xticklabels() if text.get_text()]
        ticks = [(one.get_text(), one.get_window_extent(renderer).padded(-3)) for one in labels]
        assert overlapping(ticks) == []
    titles = [(axes.get_title(loc="left"), axes.title.get_window_extent(renderer)) for axes in figure.axes]
    assert overlapping([(name, box) for name, box in titles if name]) == []


@pytest.mark.parametrize(
    ("draw", "changes", "reason"),
    [
        (ladder.draw, {"ladder": [], "star": []}, "This study has no ladder and no star"),
        (options.draw, {"options": []}, "This study has no options"),
    ],
)
def test_a_study_without_such_a_contrast_is_told_where_one_is(draw, changes, reason, tmp_path):
    of = synthetic.attribution(cells=[{"workload": "startup"}], blocks=2, **changes)
    said = all_text(draw(data_of(synthetic.attribution_blocks(of), of, tmp_path)))
    assert reason in said
    assert "config/presets/attribution.yaml" in said


@pytest.mark.parametrize("draw", [ladder.draw, options.draw])
def test_before_the_first_block_the_figure_says_so(draw):
    assert "measured yet" in all_text(draw(from_blocks(synthetic.attribution(), [], True)))


def test_options_are_dots_with_interval_and_verdict_beside_the_control(data):
    figure = options.draw(data)
    axes = panel(figure, "train-torch-fcn5")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first epoch", "steady training step"]
    said = [text.get_text() for text in axes.texts]
    assert said.count("▲ slower, n=4") == 2  # the quota
    assert said.count("≈ equivalent, n=4") == 2
    assert said.count("control") == 2
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["CPU quota", "/dev/shm of 1 GiB", "control", "margin ±5 %"]


def test_ladder_star_and_options_stay_out_of_the_other_figures(data):
    for draw in (overhead.draw, blocks_figure.draw, epochs.draw, startup.draw, breakdown.draw):
        said = all_text(draw(data))
        for name in ("no-overlay", "with-quota", "capabilities"):
            assert name not in said


def test_a_variant_that_is_measured_beside_the_runtimes_has_a_look_of_its_own(tmp_path):
    of = synthetic.study(
        cells=[{"workload": "train-torch-fcn5"}],
        blocks=2,
        variants={f"v{n}": {"base": "docker", "label": f"v{n}", "without": ["pid"]} for n in range(3)},
        runtimes=["docker", "v0", "v1", "v2"],
        comparisons=[],
    )
    data = data_of({("c", n): synthetic.block(of, of.expand()[0], n) for n in (1, 2)}, of, tmp_path)
    looks = [style.runtime_style(data, name) for name in of.runtimes]
    assert len({colour for colour, _, _ in looks}) == len({marker for _, marker, _ in looks}) == 4
    for draw in (epochs.draw, startup.draw, breakdown.draw):
        assert "v2" in all_text(draw(data))
    assert "This study asks for no comparison" in all_text(overhead.draw(data))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Two cells of every layer, 32 metrics: a quarter of the microbenchmarks."""
    with pytest.MonkeyPatch.context() as patch:
        cells = []
        for number in range(16):
            name = f"made-workload-{number:02d}"
            layer = LAYERS[number % len(LAYERS)]
            patch.setitem(WORKLOADS, name, synthetic.workload(name, layer, 2))
            cells.append({"workload": name})
        of = synthetic.study(cells=cells, blocks=5, study="many")
        made = {
            (cell.id, n): synthetic.block(of, cell, n, noise=0.02, costs={"docker": 1 + number % 7 / 20})
            for number, cell in enumerate(of.expand())
            for n in range(1, 6)
        }
        yield data_of(made, of, tmp_path_factory.mktemp("many"))


def test_overhead_has_a_section_for_every_layer_in_their_order(many):
    figure = overhead.draw(many)
    heads = [text.get_text() for axes in figure.axes for text in axes.texts if text.get_text().isupper()]
    assert [head for head in heads if head.lower() in LAYERS] == [name.upper() for name in LAYERS]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert len(titles) == 16
    assert titles[0] == "made-workload-00"
    assert titles[1] == "made-workload-08"
    # each layer has an axis of its own, with its ticks below its last panel
    ticked = [any(text.get_text() for text in axes.get_xticklabels()) for axes in figure.axes]
    assert sum(ticked) == len(LAYERS)


def test_figures_and_page_of_a_large_study_stay_small(many):
    """With 130 metrics all figures of a page must stay below 5 MB."""
    drawn_figures = {}
    for name, draw in (("overhead", overhead.draw), ("blocks", blocks_figure.draw)):
        with style.context():
            drawn_figures[name] = style.as_svg(draw(many))
        assert len(drawn_figures[name]) / 32 < 14_000
    page = report.html(many, drawn_figures)
    assert len(page) < sum(map(len, drawn_figures.values())) + 32 * 10_000
    assert page.count('<details class="layer"') == 8
    assert 'class="layer" id="layer-1" open' not in page  # folded
    assert page.count('class="badge') >= 3 * 32
