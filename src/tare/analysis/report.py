"""The report: one self-contained HTML page, its summary as Markdown, and the same as plain text for the terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

import tare
from tare.analysis import claims, conditions, notes, units, verify, view
from tare.analysis.answer import answer
from tare.analysis.study_data import StudyData, short

FIGURES: Mapping[str, str] = {
    "overhead": "What it costs, cell by cell",
    "blocks": "Every block",
    "epochs": "First epoch against steady epochs",
    "startup": "Start-up",
    "breakdown": "Where the time of a run goes",
}
_TEMPLATES = Path(__file__).parent / "templates"


def html(data: StudyData, figures: Mapping[str, str]) -> str:
    """Return the page; ``figures`` maps the names of ``FIGURES`` to SVG texts, which are put into it."""
    drawn = {name: Markup(inline_svg(svg, name, FIGURES[name])) for name, svg in figures.items()}
    return _render("report.html.j2", data, figures=drawn, autoescape=True)


def markdown(data: StudyData) -> str:
    """Return the summary as Markdown: answer, verdicts, what went wrong, claims."""
    return _render("summary.md.j2", data, figures={}, autoescape=False)


def _render(template: str, data: StudyData, figures: Mapping[str, Markup], autoescape: bool) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "short": short,
        "blocks": notes.block_list,
        "cell_text": cell_text,
        "nobreak": nobreak,
    }
    return environment.get_template(template).render(context(data), figures=figures)


def context(data: StudyData) -> dict[str, Any]:
    """Return everything the templates show."""
    shown = view.lines(data)
    return {
        "study": data.study,
        "version": tare.__version__,
        "progress": data.progress(),
        "partial": data.partial or bool(data.missing),
        "missing": verify.missing(data),
        "answer": answer(data),
        "noise_floor": notes.noise_floor(data),
        "lines": shown,
        "remarks": view.numbered(shown),
        "incidents": notes.incidents(data.runs),
        "claims": claims.findings(data),
        "cells": conditions.cells(data),
        "machines": conditions.machines(data),
        "software": conditions.software(data),
        "config": conditions.config_text(data),
        "margin": units.margin(data.study.margin),
        "titles": FIGURES,
    }


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return an SVG file's text as an element of an HTML page: no prolog, no namespaces, ids of its own."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", element)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'href="#', f'href="#{name}-', element)
    element = re.sub(r"url\(#", f"url(#{name}-", element)
    return element.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def nobreak(text: str) -> str:
    """Return ``text`` with number and unit kept on one line."""
    return re.sub(r"(?<=\d) (?=[^\s\d]{1,2}\b|%)", "\u00a0", text)


def cell_text(text: str) -> str:
    """Return ``text`` safe inside one cell of a Markdown table: no line breaks, no bars, no markup of its own."""
    flat = " ".join(text.split())
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", flat)


def terminal(data: StudyData, page: str) -> str:
    """Return the summary as plain text of at most 110 columns, the path of the page at its end."""
    first, second = answer(data)
    shown = [*textwrap.wrap(f"Study {data.study.study}, {data.progress()}. {first} {second}", 110)]
    floor = notes.noise_floor(data)
    shown += textwrap.wrap(floor, 110) if floor else []
    shown += ["", *_table(view.lines(data))]
    incidents = notes.incidents(data.runs)
    if incidents:
        shown += ["", "Not as planned:"]
    for one in incidents:
        words = (
            f"{one.kind}: {one.cell} in {one.runtime}, {notes.block_list(one.blocks)} "
            f"({units.count(one.runs, 'run')}): {one.reason}"
        )
        shown += textwrap.wrap(words, 108, initial_indent="  ", subsequent_indent="    ")
    return "\n".join([*shown, "", f"Report: {page}"]) + "\n"


def _table(lines: list[view.Line]) -> list[str]:
    """Return the verdicts in columns under a heading for each cell, every metric closed by its control."""
    if not lines:
        return ["No comparison yet."]
    several = len({line.machine for line in lines}) > 1
    rows: list[tuple[str, ...]] = []
    for (machine, cell, what), of_metric in groupby(
        lines, key=lambda line: (line.machine, line.cell, line.what)
    ):
        heading = f"{cell} on {short(machine)}" if several else cell
        if (heading,) not in rows:
            rows.append((heading,))
        group = list(of_metric)
        for number, line in enumerate(group):
            said = f"{line.mark} {line.verdict}"
            rows.append(("" if number else f"  {what}", line.pair, line.cost, line.interval, said))
        rows.append(("", "control", *group[0].control_parts))
    widths = [max(len(row[column]) for row in rows if len(row) > column) for column in range(5)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
