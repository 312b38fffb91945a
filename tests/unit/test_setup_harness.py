"""The harness itself: a skip that no missing capability explains must fail, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.setup import capabilities

HEAD = """
import pytest
import tare.setup.capabilities as c
c.detect = lambda name: c.Capability(name, {ok}, "tried", "buy one")
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, repository: Path) -> pytest.Pytester:
    source = (repository / "tests" / "conftest.py").read_text(encoding="utf-8")
    source = source.replace('pytest_plugins = ["pytester"]', "")
    source = source.replace("Path(__file__).resolve().parents[1]", f"Path({str(repository)!r})")
    pytester.makeconftest(source)
    pytester.makeini("[pytest]\nmarkers =\n  engine: x\n  root: x\n  slow: x\n")
    return pytester


def test_skips_for_a_missing_capability(inner: pytest.Pytester) -> None:
    inner.makepyfile(HEAD.format(ok=False) + "@pytest.mark.engine\ndef test_a(): raise SystemError\n")
    result = inner.runpytest_subprocess("-rs")
    assert result.ret == 0
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*capability: engine: tried; buy one*"])


def test_runs_what_the_machine_can(inner: pytest.Pytester) -> None:
    inner.makepyfile(HEAD.format(ok=True) + "@pytest.mark.needs('userns')\ndef test_a(): pass\n")
    inner.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("skip", "ok", "said"),
    [
        ("no time", False, "*unexpected skip: *::test_b: skipped with*no time*"),
        ("capability: moon: dark", False, "*test_b*unknown capability 'moon'*"),
        ("capability: engine: off", True, "*test_b*'engine', which this machine has*"),
    ],
)
def test_refuses_other_skips(inner: pytest.Pytester, skip: str, ok: bool, said: str) -> None:
    inner.makepyfile(HEAD.format(ok=ok) + f"def test_b(): pytest.skip({skip!r})\ndef test_fine(): pass\n")
    result = inner.runpytest_subprocess()
    assert result.ret == 1
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines([said])


def test_refuses_a_skip_by_mark(inner: pytest.Pytester) -> None:
    inner.makepyfile("import pytest\n@pytest.mark.skip(reason='later')\ndef test_b(): pass\n")
    result = inner.runpytest_subprocess()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*unexpected skip: *::test_b*later*"])


def test_refuses_a_skipped_module(inner: pytest.Pytester) -> None:
    inner.makepyfile("import pytest\npytest.importorskip('no_such_module_here')\ndef test_a(): pass\n")
    result = inner.runpytest_subprocess()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*unexpected skip: *no_such_module_here*"])


def test_an_expected_failure_is_not_a_skip(inner: pytest.Pytester) -> None:
    inner.makepyfile("import pytest\n@pytest.mark.xfail\ndef test_a(): assert False\n")
    inner.runpytest_subprocess().assert_outcomes(xfailed=1)


def test_slow_is_deselected_unless_asked_for(inner: pytest.Pytester) -> None:
    inner.makepyfile("import pytest\n@pytest.mark.slow\ndef test_a(): pass\ndef test_b(): pass\n")
    inner.runpytest_subprocess().assert_outcomes(passed=1, deselected=1)
    inner.runpytest_subprocess("--run-slow").assert_outcomes(passed=2)


def test_unknown_capability_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"unknown capability 'wings'; allowed: engine, root, chroot"):
        capabilities.detect("wings")
