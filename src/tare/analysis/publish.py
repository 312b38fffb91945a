"""From block files to a finished report in one call, without the workflow: what ``make report`` shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from tare.analysis import report
from tare.analysis.collect import collect
from tare.analysis.compare import as_table, compare
from tare.analysis.figures import blocks, breakdown, epochs, ladder, options, overhead, startup, style
from tare.analysis.study_data import StudyData
from tare.config import Study

DRAW: Mapping[str, Callable[[StudyData], Figure]] = {
    "overhead": overhead.draw,
    "blocks": blocks.draw,
    "epochs": epochs.draw,
    "startup": startup.draw,
    "breakdown": breakdown.draw,
    "ladder": ladder.draw,
    "options": options.draw,
}


def finished_blocks(study: Study, results: Path) -> list[Path]:
    """Return the block files of the study that exist now, in the order of config and number."""
    folder = results / study.study / "blocks"
    wanted = [
        folder / cell.id / f"{block}.parquet"
        for cell in study.expand()
        for block in range(1, study.blocks + 1)
    ]
    return [path for path in wanted if path.is_file()]


def from_blocks(study: Study, paths: Sequence[Path], partial: bool) -> StudyData:
    """Return the study as some of its block files tell it; ``partial`` marks every page and figure so."""
    runs, samples = collect(paths)
    return StudyData(
        study, runs, samples, as_table(study, compare(study, runs, samples)).to_pylist(), partial
    )


def publish(data: StudyData, folder: Path, pngs: bool = True) -> Path:
    """Write figures (with ``pngs`` also as PNG), summary.md and report.html to ``folder``; return the page's path."""
    drawn = {}
    for name, draw in DRAW.items():
        svg = folder / "figures" / f"{name}.svg"
        style.save(draw(data), svg, svg.with_suffix(".png") if pngs else None)
        drawn[name] = svg.read_text(encoding="utf-8")
    write(data, drawn, folder / "report.html", folder / "summary.md")
    return folder / "report.html"


def write(data: StudyData, figures: Mapping[str, str], page: Path, summary: Path) -> None:
    """Write the page and the Markdown summary."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(report.html(data, figures), encoding="utf-8")
    summary.write_text(report.markdown(data), encoding="utf-8")
