"""The microbenchmark that CONTRIBUTING.md shows is added to a copy of the tree, by that page's steps, and measured."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tare.worker.request import PROTOCOL

ASK = """
import json, sys
from tare.config import load, json_schema
study = load({"study": "toy", "cells": [json.loads(sys.argv[1])]})
schema = json.loads(json_schema())
allowed = schema["$defs"]["CellEntry"]["properties"]["workload"]["enum"]
print(json.dumps([[cell.id for cell in study.expand()], allowed]))
"""


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def module(page: str) -> str:
    """The adapter that the page shows."""
    (shown,) = re.findall(r"^ *```python\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(shown)


@pytest.fixture(scope="module")
def source(repository: Path, module: str, page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of src/ to which steps 1 and 2 were done."""
    copy = tmp_path_factory.mktemp("contributing") / "src"
    shutil.copytree(repository / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "tare/workloads/sha256.py").write_text(module)
    registry = copy / "tare/workloads/registry.py"
    (line,) = re.findall(r"into `FAMILIES` of `src/tare/workloads/registry.py`: `(.*?)`", page)
    registry.write_text(registry.read_text().replace("FAMILIES = (\n", f"FAMILIES = (\n    {line}\n"))
    return copy


def python(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.defpath}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_one_entry_of_a_config_makes_its_cells_and_the_schema_knows_it(source: Path, page: str) -> None:
    (entry,) = yaml.safe_load(re.findall(r"in a config: `(- workload: .*?)`", page)[0])
    (factors,) = re.findall(r"varied: `factors: (\{.*?\})`", page)
    for given, cells in (
        (entry, ["sha256"]),
        (entry | {"factors": yaml.safe_load(factors)}, ["sha256+bytes=4096", "sha256"]),
    ):
        asked = python(source, "-c", ASK, json.dumps(given))
        assert asked.returncode == 0, asked.stderr
        found, allowed = json.loads(asked.stdout)
        assert found == cells
        assert "sha256" in allowed
        assert "hpcc" in allowed


Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(source: Path, tmp_path: Path) -> Run:
    """``run(bytes)``: the events of one run of the page's workload."""

    def work(size: int) -> list[dict[str, Any]]:
        request = {
            "protocol": PROTOCOL,
            "run_id": "r",
            "family": "sha256",
            "workload": "sha256",
            "factors": {"bytes": size},
            "seed": 1,
            "threads": 1,
            "memory_bytes": 10**9,
            "data": None,
            "output": str(tmp_path),
            "files": str(tmp_path),
            "peer": None,
            "handshake": False,
        }
        (tmp_path / "request.json").write_text(json.dumps(request))
        done = python(source, "-m", "tare.worker", str(tmp_path / "request.json"))
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]

    return work


@pytest.mark.parametrize("size", [4096, 2**20])
def test_the_worker_runs_it_and_it_is_valid(run: Run, size: int) -> None:
    events = run(size)
    (check,) = (event for event in events if event["event"] == "check")
    assert (check["ok"], check["reasons"], check["facts"]["work"]["bytes"]) == (True, [], size)
    samples = [event for event in events if event["event"] == "sample"]
    assert [sample["index"] for sample in samples] == [*range(20)]
    assert {(one["metric"], one["phase"], one["unit"]) for one in samples} == {
        ("sha256_rate", "steady", "B/s")
    }
    assert min(sample["value"] for sample in samples) > 1e6


def test_its_work_is_part_of_parity() -> None:
    from tare.parity_fields import REQUIRED, rule_of

    assert rule_of("check.work.digest").kind == REQUIRED


def test_every_file_and_name_the_page_points_to_is_there(repository: Path, page: str) -> None:
    section = page[page.index("**A microbenchmark") : page.index("**A runtime.**")]
    paths = re.findall(r"`((?:src|scripts|tests|docs|analysis)/[\w./-]+\.(?:py|md))`", section)
    assert len(paths) == 3
    for path in paths:
        assert (repository / path).exists() or (repository / "src/tare" / path).exists(), path
    fields = (repository / "src/tare/workloads/declaration.py").read_text()
    for field in re.findall(r"`(dataset|cached|native|peer|gpu)`", section):
        assert re.search(rf"^    {field}: ", fields, re.MULTILINE), field
