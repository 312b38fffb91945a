from __future__ import annotations

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
