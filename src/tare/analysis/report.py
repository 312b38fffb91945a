"""The report: one self-contained HTML page, and its summary as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

import tare
from tare.analysis import (
    claims,
    conditions,
    explained,
    incidents,
    layers,
    notes,
    remarks,
    units,
    userland,
    verify,
    view,
)
from tare.analysis.answer import answer
from tare.analysis.costs import what_costs
from tare.analysis.figures.style import VERDICT_MARK
from tare.analysis.markdown import cell_text
from tare.analysis.study_data import StudyData, short

FIGURES: Mapping[str, str] = {
    "overhead": "What it costs, cell by cell",
    "blocks": "Every block",
    "epochs": "First epoch against steady epochs",
    "startup": "Start-up",
    "breakdown": "Where the time of a run goes",
    "ladder": "Which step costs, from the host to the container",
    "options": "What your flags cost",
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
        "nobreak": units.nobreak,
        "code": code,
        "count": units.count,
    }
    return environment.get_template(template).render(context(data), figures=figures)


def context(data: StudyData) -> dict[str, Any]:
    """Return everything the templates show."""
    shown, steps = view.groups(data), view.attributed(data)
    warned = remarks.remarks([*shown, *steps])
    return {
        "study": data.study,
        "version": tare.__version__,
        "progress": data.progress(),
        "partial": data.partial or bool(data.missing),
        "missing": verify.missing(data),
        "answer": [text for text in (*answer(data), what_costs(data)) if text],
        "notes": [text for text in (notes.noise_floor(data), notes.disturbed_share(data)) if text],
        "layers": layers.layers(shown, data.pair_names),
        "folded": len(shown) > layers.FOLD_BEYOND,
        "steps": [(cell, list(of_cell)) for cell, of_cell in groupby(steps, key=lambda group: group.place)],
        "verdicts": sum(len(group.lines) for group in (*shown, *steps)),
        "pairs": data.pair_names,
        "worthwhile": explained.WORTHWHILE_BLOCKS,
        "remarks": warned,
        "remark_number": remarks.numbers(warned),
        "marks": VERDICT_MARK,
        "control": conditions.control(data),
        "userland": userland.differences(data),
        "troubles": incidents.troubles(data),
        "claims": claims.findings(data),
        "cells": conditions.cells(data),
        "machines": conditions.machines(data),
        "software": conditions.software(data),
        "config": conditions.config_text(data),
        "margin": units.margin(data.study.margin),
        "titles": {name: title for name, title in FIGURES.items() if _has(data, name)},
    }


def _has(data: StudyData, figure: str) -> bool:
    """Return whether the page shows a figure: those of features only where the study has such contrasts."""
    shown = {view.FIGURE_OF_CONTRAST.get(row["contrast"]) for row in data.comparisons}
    return figure in shown or figure not in view.FIGURE_OF_CONTRAST.values()


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return an SVG file's text as an element of an HTML page: no prolog, no namespaces, ids of its own."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", element)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'href="#', f'href="#{name}-', element)
    element = re.sub(r"url\(#", f"url(#{name}-", element)
    return element.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def code(text: str) -> Markup:
    """Return ``text`` as HTML, what stands between backticks as code; everything else stays text."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
