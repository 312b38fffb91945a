"""Figures: what they show, that they say why they are empty, and that the same data give the same bytes."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
import synthetic_study as synthetic

from tare.analysis.figures import blocks as blocks_figure
from tare.analysis.figures import breakdown, epochs, forest, overhead, startup, style
from tare.analysis.publish import DRAW, from_blocks, publish

PNG = b"\x89PNG\r\n\x1a\n"


def data_of(tables, of, folder, partial=False):
    return from_blocks(of, synthetic.write_blocks(tables, folder), partial)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    of = synthetic.study()
    return data_of(synthetic.standard_blocks(of), of, tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    of = synthetic.study(blocks=4, cells=[{"workload": "startup"}, {"workload": "train-torch-fcn5"}])
    return data_of(synthetic.standard_blocks(of), of, tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def published(small, tmp_path_factory):
    """The folder of ``small``'s report."""
    folder = tmp_path_factory.mktemp("published")
    publish(small, folder)
    return folder


def texts(figure):
    found = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    return [text for text in found if text]


def all_text(figure):
    return " ".join(" ".join(texts(figure)).split())


@pytest.mark.parametrize("name", sorted(DRAW))
def test_same_data_same_bytes(name, small, published, tmp_path):
    first = published / f"figures/{name}.svg"
    style.save(DRAW[name](small), tmp_path / "x.svg", tmp_path / "x.png")
    assert first.read_bytes() == (tmp_path / "x.svg").read_bytes()
    png = first.with_suffix(".png").read_bytes()
    assert png == (tmp_path / "x.png").read_bytes()
    assert png.startswith(PNG)
    svg = first.read_text()
    assert "<dc:date>" not in svg
    assert mpl.__version__ not in svg


def test_another_process_zone_and_matplotlibrc_give_the_same_bytes(published, tmp_path):
    """In a fresh interpreter, with a user's own settings, from shuffled files."""
    source = Path(__file__).parent
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: black\nfont.size: 20\nsvg.hashsalt: other\n")
    code = (
        "import sys, pathlib, synthetic_study as s\n"
        "from tare.analysis import publish\n"
        "of = s.study(blocks=4, cells=[{'workload': 'startup'}, {'workload': 'train-torch-fcn5'}])\n"
        "paths = s.write_blocks(dict(reversed(s.standard_blocks(of).items())), pathlib.Path('blocks'))\n"
        "publish.publish(publish.from_blocks(of, paths, False), pathlib.Path('out'))\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{source}:{source.parents[1] / 'src'}",
        "TZ": "Asia/Tokyo",
        "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
        "MPLCONFIGDIR": str(tmp_path / "mpl"),
        "PYTHONHASHSEED": "7",
    }
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=120)
    for path in sorted(published.rglob("*")):
        if path.is_file():
            other = tmp_path / "out" / path.relative_to(published)
            assert path.read_bytes() == other.read_bytes(), path.name


@pytest.mark.parametrize("name", sorted(DRAW))
def test_every_figure_names_study_blocks_and_machine(name, small):
    said = all_text(DRAW[name](small))
    assert "Study quick (seed 20260101): 8 of 8 blocks" in said
    assert f"machine {synthetic.MACHINE[:12]}" in said


@pytest.mark.parametrize("name", sorted(DRAW))
def test_a_partial_study_says_so_in_every_figure(name, tmp_path):
    of = synthetic.study()
    some = dict(list(synthetic.standard_blocks(of).items())[10:12])
    assert "partial, 2 of 20 blocks" in all_text(DRAW[name](data_of(some, of, tmp_path, partial=True)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("overhead", "No block has been measured yet"),
        ("blocks", "No block has two valid runs to compare"),
        ("epochs", "No valid run of this study has epochs"),
        ("startup", "No valid run"),
        ("breakdown", "No valid run"),
    ],
)
def test_without_data_a_figure_says_so_in_words(name, reason, tmp_path):
    figure = DRAW[name](from_blocks(synthetic.study(), [], False))
    assert reason in all_text(figure)
    style.save(figure, tmp_path / "x.svg", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("name", sorted(DRAW))
def test_a_study_in_which_everything_failed_still_draws(name, tmp_path):
    of = synthetic.study(blocks=2)

    def fail_all(run):
        run.update(
            status="failed", reasons=["x"], seconds_to_start=None, seconds_to_ready=None, seconds_total=None
        )

    blocks = {(c.id, n): synthetic.block(of, c, n, change=fail_all) for c in of.expand() for n in (1, 2)}
    figure = DRAW[name](data_of(blocks, of, tmp_path))
    style.save(figure, tmp_path / "x.svg", tmp_path / "x.png")
    assert "not comparable" in all_text(figure) if name == "overhead" else "No " in all_text(figure)


def test_overhead_writes_every_ratio_and_verdict(data):
    said = texts(overhead.draw(data))
    for row in data.comparisons:
        assert any(text.endswith(f"{row['verdict']}, n={row['blocks']}") for text in said)
    assert sum(text == "control" for text in said) == 13
    assert "× 14.3" in said


def overlapping(boxes):
    """Return the pairs of text boxes (name, extent) that are less than 8 pixels apart."""
    wide = [(name, box.padded(4, 0)) for name, box in boxes]
    return [(a, b) for n, (a, one) in enumerate(wide) for b, two in wide[n + 1 :] if one.overlaps(two)]


def drawn(figure):
    """Lay the figure out, and return what measures its texts."""
    renderer = mpl.backends.backend_agg.FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    return renderer


def test_overhead_words_do_not_touch_even_when_intervals_are_widest(small):
    widest = {"ratio": 2.005, "ci_low": 0.345, "ci_high": 2.736, "verdict": "inconclusive"}
    noise = {f"noise_{name}": widest[name] for name in ("ratio", "ci_low", "ci_high")}
    figure = overhead.draw(replace(small, comparisons=[row | widest | noise for row in small.comparisons]))
    renderer = drawn(figure)
    words = [text for axes in figure.axes for text in axes.texts]
    assert (
        sum(text.get_text() == "[−65.5 %, +173.6 %]" for text in words) == 16
    )  # 4 metrics, 3 pairs and control
    assert overlapping([(text.get_text(), text.get_window_extent(renderer)) for text in words]) == []


@pytest.mark.parametrize("longest", [0.5, 2.0, 6.0, 60.0, 600.0])
def test_startup_ticks_do_not_touch(longest, tmp_path):
    of = synthetic.study(blocks=2, cells=[{"workload": "startup"}, {"workload": "train-torch-fcn5"}])

    def slow(run):
        if run["cell"] != "startup":
            run["seconds_to_ready"] = longest

    blocks = {(c.id, n): synthetic.block(of, c, n, change=slow) for c in of.expand() for n in (1, 2)}
    figure = startup.draw(data_of(blocks, of, tmp_path))
    renderer = drawn(figure)
    for axes in figure.axes:
        low, high = axes.get_xlim()
        ticks = [tick for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        labels = [(tick.label1.get_text(), tick.label1.get_window_extent(renderer)) for tick in ticks]
        assert len(labels) >= 2
        assert overlapping(labels) == []
        assert not any(".0" in text for text, _ in labels)


def test_pairs_are_drawn_in_reading_order(data):
    legend = [text.get_text() for text in overhead.draw(data).legends[0].get_texts()]
    assert legend == [
        "docker ÷ host",
        "docker ÷ chroot",
        "chroot ÷ host",
        "control: chroot ÷ chroot",
        "margin ±5 %",
    ]


def test_overhead_marks_what_lies_beyond_the_axis(data):
    """One metric of many is far off: the axis of its layer stays that of the others."""
    far = {"ratio": 15.0, "ci_low": 14.0, "ci_high": 16.0, "verdict": "slower"}
    moved = [row | (far if row["metric"] == "hpl_flops" else {}) for row in data.comparisons]
    panel = overhead.draw(replace(data, comparisons=moved)).axes[1]
    arrows = [line for line in panel.lines if line.get_marker() == ">"]
    assert len(arrows) == 3  # one for each pair
    assert {line.get_xdata()[0] for line in arrows} == {panel.get_xlim()[1] / 1.04}


@pytest.mark.parametrize(
    ("reaches", "margin", "expected"),
    [
        ([1.02] * 5, 0.05, 1 / 0.9),
        ([1.02] * 4 + [14.0], 0.05, 1 / 0.9),  # one in five may lie beyond
        ([1.02] * 3 + [14.0] * 2, 0.05, 16.0),
        ([1.02] * 5, 0.2, 1.5),  # the margin must be seen whole
        ([], 0.05, 1 / 0.9),
        ([1e9], 0.05, 256.0),
    ],
)
def test_axis_limit(reaches, margin, expected):
    rows = [{"ci_low": 1 / reach, "ci_high": reach} for reach in reaches]
    assert forest.axis_limit(rows, margin) == expected


def test_blocks_draws_disturbed_attempts_hollow(data):
    panel = next(
        axes
        for axes in blocks_figure.draw(data).axes
        if axes.get_title(loc="left").endswith("fcn5: first epoch")
    )
    marks = [line for line in panel.lines if line.get_linestyle() == "None"]
    hollow = [line for line in marks if line.get_markerfacecolor() == "white"]
    # 3 pairs and the control; block 2 has one disturbed attempt, block 4 two
    assert len(hollow) == 4 * 3
    assert {round(line.get_xdata()[0]) for line in hollow} == {2, 4}
    assert len(marks) == 4 * (5 + 2)


def test_blocks_joins_only_what_counts(data):
    panel = next(
        axes
        for axes in blocks_figure.draw(data).axes
        if axes.get_title(loc="left").endswith("alexnet: first epoch")
    )
    joined = [line for line in panel.lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 2]
    # docker failed in block 3: both its pairs have four blocks, chroot ÷ host and the control five
    assert sorted(len(line.get_xdata()) for line in joined) == [4, 4, 5, 5]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (math.log(0.97), math.log(1.035), [0.98, 1.0, 1.02]),
        (math.log(0.999), math.log(1.001), [1.0]),
        (math.log(0.95), math.log(15), [1, 2, 5, 10]),
        (math.log(0.9), math.log(5000), [1, 10, 100, 1000]),
    ],
)
def test_ticks_are_round_ratios(low, high, expected):
    assert style.ratio_ticks(low, high) == pytest.approx(expected)


def test_breakdown_parts_add_up(data):
    seconds = epochs.epoch_seconds(data)
    run = next(r for r in data.runs if r["cell"] == "train-torch-fcn5" and r["status"] == "ok")
    found = breakdown.parts(run, seconds)
    assert sum(found) == pytest.approx(run["seconds_total"])
    assert found[0] == run["seconds_to_start"]
    assert found[2] == seconds[run["run_id"]][0]
    assert breakdown.parts(run | {"seconds_to_ready": None}, seconds) is None


def test_startup_shows_the_median(data):
    said = texts(startup.draw(data))
    values = sorted(
        run["seconds_to_start"]
        for run in data.runs
        if (run["cell"], run["runtime"], run["role"]) == ("startup", "docker", "measure")
    )
    assert f"{values[2] * 1000:.0f} ms" in said


def test_several_machines_get_panels_of_their_own(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}], blocks=2)
    blocks = {
        (machine, n): synthetic.block(of, of.expand()[0], n, machine=machine)
        for machine in ("m1", "m2")
        for n in (1, 2)
    }
    titles = [axes.get_title(loc="left") for axes in overhead.draw(data_of(blocks, of, tmp_path)).axes]
    assert titles == ["startup on m1", "startup on m2"]
