"""The worker's part runs on Python 3.9 with the standard library alone: held against its source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
FILES = sorted([*SRC.glob("tare/worker/*.py"), *SRC.glob("tare/workloads/*.py"), SRC / "tare/__init__.py"])
#: adapters of frameworks, and what they import of theirs
FRAMEWORK_FILES = {
    "train_torch.py": {"torch", "numpy"},
    "torch_networks.py": {"torch"},
    "gpu_kernels.py": {"torch"},
    "gpu_run.py": {"torch"},
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_imports_the_standard_library_and_its_own_framework_only(path: Path) -> None:
    foreign = {name for name in imports(path) if name not in sys.stdlib_module_names} - {"tare"}
    assert foreign <= FRAMEWORK_FILES.get(path.name, set())


def test_the_clock_is_read_before_anything_of_the_worker_is_imported() -> None:
    tree = ast.parse((SRC / "tare/worker/__main__.py").read_text(encoding="utf-8"))
    statements = [node for node in tree.body if not isinstance(node, ast.Expr)]
    assert isinstance(statements[0], ast.Import)
    assert [alias.name for alias in statements[0].names] == ["time"]
    assert isinstance(statements[1], ast.Assign)
    assert ast.unparse(statements[1].value) == "time.monotonic_ns()"
