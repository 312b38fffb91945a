from __future__ import annotations

import ast
import shutil
from pathlib import Path

from tare import harness


def copied(tmp_path: Path) -> Path:
    package = tmp_path / "tare"
    shutil.copytree(harness.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def test_the_digest_is_of_the_code_not_of_comments_or_place(tmp_path: Path) -> None:
    package = copied(tmp_path)
    assert harness.digest(package) == harness.digest()
    run = package / "run.py"
    run.write_text('"""Another docstring."""\n# a comment\n\n' + run.read_text().split('"""', 2)[2])
    assert harness.digest(package) == harness.digest()


def test_every_module_of_the_measuring_side_counts(tmp_path: Path) -> None:
    package = copied(tmp_path)
    seen = {harness.digest(package)}
    for name in harness.MODULES:
        path = package / name
        module = path / "base.py" if path.is_dir() else path
        module.write_text(module.read_text() + "\nCHANGED = 1\n")
        seen.add(harness.digest(package))
    assert len(seen) == len(harness.MODULES) + 1


def test_other_modules_do_not_count(tmp_path: Path) -> None:
    package = copied(tmp_path)
    for name in ("config.py", "records.py", "progress.py", "analysis/__init__.py"):
        (package / name).write_text((package / name).read_text() + "\nCHANGED = 1\n")
    assert harness.digest(package) == harness.digest()


#: reached from measuring and no part of a measurement: words, storage, identity, clean-up, what built things are called
BESIDE = {
    *("config.py", "variants.py", "records.py", "progress.py", "paths.py", "identity.py", "processes.py"),
    *("signals.py", "sweep.py", "machine_lock.py", "fingerprint.py", "node.py", "library_hashes.py"),
}
#: folders of which the same holds, or that are inputs of their own (the worker wheel)
BESIDE_FOLDERS = ("setup", "software", "worker", "workloads")


def imported(module: Path) -> set[Path]:
    """Return the modules of the package that one of its modules imports."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tare":
            base = harness.PACKAGE.joinpath(*str(node.module).split(".")[1:])
            for path in (base, *(base / alias.name for alias in node.names)):
                found |= {one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()}
    return found


def test_a_module_that_measuring_reaches_is_counted_or_said_not_to_be() -> None:
    seen: set[Path] = set()
    todo = {harness.PACKAGE / "measure.py"}
    while todo:
        module = todo.pop()
        seen.add(module)
        todo |= imported(module) - seen
    names = {module.relative_to(harness.PACKAGE).as_posix() for module in seen} - {"__init__.py"}
    outside = {
        name for name in names if name not in harness.MODULES and name.split("/")[0] not in harness.MODULES
    }
    assert {name for name in outside if name.split("/")[0] not in BESIDE_FOLDERS} == BESIDE
