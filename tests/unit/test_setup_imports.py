"""Set-up, doctor and demo run before anything is installed: standard library only, syntax of Python 3.9."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ENTRIES = ("src/tare/setup/__main__.py", "src/tare/doctor/__main__.py", "scripts/show_demo.py")


def modules(tree: ast.Module) -> list[str]:
    """Return the dotted names that a module imports, those of ``from a import b`` as ``a`` and ``a.b``."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide what is imported"
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def source(root: Path, module: str) -> Path | None:
    path = root / "src" / Path(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


def reached(root: Path, entry: Path) -> tuple[list[Path], set[str]]:
    """Return (files of this project that an entry imports, directly or not; names outside it)."""
    files, outside = [entry], set[str]()
    for file in files:
        for name in modules(ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))):
            if name.split(".")[0] != "tare":
                outside.add(name.split(".")[0])
            elif (found := source(root, name)) is not None and found not in files:
                files.append(found)
    return files, outside


@pytest.mark.parametrize("entry", ENTRIES)
def test_only_the_standard_library(repository: Path, entry: str) -> None:
    _, outside = reached(repository, repository / entry)
    assert sorted(outside - set(sys.stdlib_module_names)) == []


def test_the_search_reaches_what_is_imported_indirectly(repository: Path) -> None:
    files, _ = reached(repository, repository / ENTRIES[0])
    names = {str(file.relative_to(repository / "src" / "tare")) for file in files}
    assert {"setup/plan.py", "setup/pythons.py", "software/safe_delete.py", "paths.py"} <= names


@pytest.mark.parametrize("entry", ENTRIES)
def test_annotations_are_never_evaluated(repository: Path, entry: str) -> None:
    """``X | None`` in an annotation is evaluated by Python 3.9, and refused, without this import."""
    files, _ = reached(repository, repository / entry)
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert " | " not in text or "from __future__ import annotations" in text, file
