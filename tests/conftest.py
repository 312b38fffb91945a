"""The tests' harness: what this machine can do decides what is skipped, and nothing else may skip a test.

- ``@pytest.mark.engine``, ``@pytest.mark.root``, ``@pytest.mark.needs("userns", …)``: skipped, with the
  reason ``capability: <name>: <why>; <remedy>``, exactly when ``tare.setup.capabilities`` finds it missing.
- the fixture ``require``: the same from inside a test, ``require("chroot")``.
- any other skip (another reason, or a capability that the machine has) fails the test that asked for it.
- ``@pytest.mark.slow`` tests run with ``--run-slow`` only; otherwise they are deselected, not skipped.
"""

from __future__ import annotations

import grp
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from tare.setup import capabilities

pytest_plugins = ["pytester"]

REASON = re.compile(r"capability: (?P<name>[a-z_]+): .+", re.DOTALL)
BY_MARK = ("engine", "root")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run the tests marked slow too (make test-full)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*names): needs these capabilities of tare.setup.capabilities")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--run-slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    names = [name for name in BY_MARK if item.get_closest_marker(name)]
    names += [name for mark in item.iter_markers("needs") for name in mark.args]
    for name in names:
        _require(name)


def _require(name: str) -> None:
    capability = capabilities.detect(name)
    if not capability.ok:
        pytest.skip(str(capability))


def _objection(reason: str) -> str | None:
    """Return what is wrong with the reason of a skip, or None when it names a capability found missing."""
    match = REASON.fullmatch(reason.removeprefix("Skipped: ").strip())
    if match is None:
        return (
            f"skipped with {reason!r}; allowed: a reason 'capability: <name>: <why>' (see tests/conftest.py)"
        )
    name = match["name"]
    if name not in capabilities.NAMES:
        return f"skipped for the unknown capability {name!r}; allowed: {', '.join(capabilities.NAMES)}"
    if capabilities.detect(name).ok:
        return f"skipped for {name!r}, which this machine has: {capabilities.detect(name).why}"
    return None


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    objection = _objection(reason)
    if objection:
        report.outcome = "failed"
        report.longrepr = f"unexpected skip: {report.nodeid}: {objection}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse(report)
    return report


@pytest.fixture(scope="session")
def require() -> Callable[[str], None]:
    """A function that skips the test when the machine lacks the capability it is given."""
    return _require


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def as_user() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``as_user(argv, docker=False, **run)``: subprocess.run as an ordinary user, at will in group docker."""
    _require("ordinary_user")

    def run(argv: list[str], docker: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
        uid = capabilities.ORDINARY_UID
        if docker:
            _require("engine")
        groups = [grp.getgrnam("docker").gr_gid] if docker else []
        return subprocess.run(
            argv,
            user=uid,
            group=uid,
            extra_groups=groups,
            text=True,
            capture_output=True,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def user_dir() -> Iterator[Path]:
    """A fresh folder that the ordinary user of ``as_user`` owns and can reach (tmp_path is root's alone)."""
    _require("ordinary_user")
    folder = Path(tempfile.mkdtemp(prefix="tare-user-"))
    os.chown(folder, capabilities.ORDINARY_UID, capabilities.ORDINARY_UID)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def native_program(repository: Path) -> Callable[[str], Path]:
    """``native_program(name)``: the compiled program of ``src/tare/native/<name>``, made once and kept in the cache."""
    _require("native")
    from tare.software import native
    from tare.software.locks import StackLock

    def make(name: str) -> Path:
        lock = StackLock(repository / "envs", native.LOCK)
        return native.ensure_program(name, lock, repository / native.NATIVE).path

    return make
