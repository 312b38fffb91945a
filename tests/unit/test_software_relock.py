"""From wish to lock: what uv is asked, and in which order of places."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tare.software import relock
from tare.software.errors import SoftwareError


class Uv:
    """Stands for pip (its configuration) and uv: resolves at the call numbered ``succeeds``."""

    def __init__(self, succeeds: int) -> None:
        self.succeeds, self.asked = succeeds, list[list[str]]()

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if command[2:5] == ["pip", "config", "list"]:
            told = "global.extra-index-url='http://e'\nglobal.find-links='/a /b'\n:env:.timeout='1'\n"
            return subprocess.CompletedProcess(command, 0, told, "")
        self.asked.append(command[command.index("--no-emit-index-url") + 1 :])
        ok = len(self.asked) == self.succeeds
        return subprocess.CompletedProcess(command, 0 if ok else 1, "x==1\n" if ok else "", "no x")


WISH = "# python: 3.11, platform: manylinux_2_28_x86_64\n--extra-index-url http://p\nx\n"
TARGET = ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28", "-"]
PLACES = ["--find-links", "/a", "--find-links", "/b"]


@pytest.mark.parametrize(
    ("succeeds", "extra"),
    [(1, []), (2, ["--extra-index-url", "http://e"]), (3, ["--extra-index-url", "http://p"])],
)
def test_places_are_asked_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, succeeds: int, extra: list[str]
) -> None:
    uv = Uv(succeeds)
    monkeypatch.setattr(relock.subprocess, "run", uv)
    (tmp_path / "s.in").write_text(WISH)
    relock.relock_wheels(tmp_path, "s")
    assert len(uv.asked) == succeeds
    assert sorted(uv.asked[-1]) == sorted([*PLACES, *extra, *TARGET])
    assert (tmp_path / "s.lock.txt").read_text() == "# python 3.11 manylinux_2_28_x86_64\nx==1\n"


def test_a_wish_that_nowhere_resolves_keeps_the_old_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relock.subprocess, "run", Uv(9))
    (tmp_path / "s.in").write_text(WISH)
    (tmp_path / "s.lock.txt").write_text("old")
    with pytest.raises(SoftwareError, match="uv cannot resolve"):
        relock.relock_wheels(tmp_path, "s")
    assert (tmp_path / "s.lock.txt").read_text() == "old"


def test_a_stack_without_wheels_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = Uv(1)
    monkeypatch.setattr(relock.subprocess, "run", uv)
    (tmp_path / "s.in").write_text("# python: 3.11, platform: manylinux_2_28_x86_64\n")
    relock.relock_wheels(tmp_path, "s")
    assert uv.asked == []
    assert (tmp_path / "s.lock.txt").read_text() == "# python 3.11 manylinux_2_28_x86_64\n"


def test_a_wish_without_target_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.in").write_text("x\n")
    with pytest.raises(SoftwareError, match=r"needs a line “# python: 3.11, platform"):
        relock.relock_wheels(tmp_path, "s")


def test_suites_may_not_be_mixed(tmp_path: Path) -> None:
    (tmp_path / "base.debs.in").write_text("suite: bookworm\npython3\n")
    (tmp_path / "old.debs.in").write_text("suite: bullseye\ncaffe\n")
    with pytest.raises(SoftwareError, match=r"several suites \(bookworm, bullseye\)"):
        relock.relock_debs(tmp_path, ["old"], "auto")
