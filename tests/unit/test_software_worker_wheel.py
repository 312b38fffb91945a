"""The worker wheel: byte-identical wherever it is built, and nothing in it but the worker's side."""

import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from tare.software.worker_wheel import build_worker
from tare.software.workflow import worker_code


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def elsewhere(repository: Path, tmp_path: Path) -> Path:
    """A copy of the sources in another folder, with other times and permissions, and bytecode lying about."""
    copy = tmp_path / "a folder"
    shutil.copytree(repository / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (1, 1))
    (copy / "src/tare/worker/__pycache__").mkdir()
    (copy / "src/tare/worker/__pycache__/x.cpython-311.pyc").write_bytes(b"x")
    return copy


def test_two_builds_are_byte_identical(repository: Path, elsewhere: Path, tmp_path: Path) -> None:
    wheels = [
        build_worker(root, tmp_path / name, "0.1.0") for root, name in ((repository, "1"), (elsewhere, "2"))
    ]
    assert [wheel.name for wheel in wheels] == ["tare_worker-0.1.0-py3-none-any.whl"] * 2
    assert len({hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}) == 1


def test_only_the_workers_side_is_inside(repository: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(build_worker(repository, tmp_path, "0.1.0")) as wheel:
        names = wheel.namelist()
    code = [name for name in names if not name.startswith("tare_worker-0.1.0.dist-info/")]
    assert {"tare/__init__.py", "tare/worker/__init__.py", "tare/workloads/__init__.py"} <= {*code}
    assert all(
        name == "tare/__init__.py" or name.startswith(("tare/worker/", "tare/workloads/")) for name in code
    )
    assert all(name.endswith(".py") for name in code)


def test_an_edit_of_the_worker_changes_it_and_one_of_the_analysis_does_not(
    elsewhere: Path, tmp_path: Path
) -> None:
    before = build_worker(elsewhere, tmp_path / "1", "0.1.0").read_bytes()
    with (elsewhere / "src/tare/analysis/__init__.py").open("a") as file:
        file.write("# edited\n")
    assert build_worker(elsewhere, tmp_path / "2", "0.1.0").read_bytes() == before
    with (elsewhere / "src/tare/worker/__init__.py").open("a") as file:
        file.write("# edited\n")
    assert build_worker(elsewhere, tmp_path / "3", "0.1.0").read_bytes() != before


def test_the_callers_date_is_left_alone(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    build_worker(repository, tmp_path, "0.1.0")
    assert os.environ["SOURCE_DATE_EPOCH"] == "1"


def test_the_rules_inputs_are_what_is_inside(repository: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(build_worker(repository, tmp_path, "0.1.0")) as wheel:
        inside = {f"src/{name}" for name in wheel.namelist() if name.startswith("tare/")}
    assert inside == {*worker_code(repository)}
