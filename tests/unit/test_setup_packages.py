"""apt-get as it would be called, with a runner that only notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tare.setup import packages
from tare.setup.environment import SetupError


class Apt:
    """Notes the sub-command of each call; ``install`` fails the first ``failures`` times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.calls, self.words = failures, list[str](), list[str]()

    def __call__(self, argv: Sequence[str], environ: Mapping[str, str]) -> int:
        assert environ["DEBIAN_FRONTEND"] == "noninteractive"
        assert argv[:2] == ["apt-get", "-y"]
        command = next(word for word in argv if word in ("install", "update"))
        self.calls.append(command)
        self.words = list(argv)
        if command == "install" and self.failures:
            self.failures -= 1
            return 100
        return 0


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    (tmp_path / "mirror_dists_bookworm_main_binary-amd64_Packages.lz4").touch()
    return tmp_path


def test_installs_with_the_lists_there(lists: Path) -> None:
    apt = Apt()
    packages.install(["hpcc", "uidmap"], apt, lists)
    assert apt.calls == ["install"]
    assert apt.words[-4:] == ["install", "--no-install-recommends", "hpcc", "uidmap"]


def test_fetches_lists_that_are_missing(tmp_path: Path) -> None:
    apt = Apt()
    packages.install(["hpcc"], apt, tmp_path)
    assert apt.calls == ["update", "install"]


def test_fetches_lists_that_are_too_old(lists: Path) -> None:
    apt = Apt(failures=1)
    packages.install(["hpcc"], apt, lists)
    assert apt.calls == ["install", "update", "install"]


def test_no_network_names_the_command(lists: Path) -> None:
    apt = Apt(failures=9)
    with pytest.raises(
        SetupError, match=r"could not install hpcc .* Is the network up.* By hand: apt-get update && "
    ):
        packages.install(["hpcc"], apt, lists)
    assert apt.calls == ["install", "update", "install"]


def test_fresh_lists_are_not_fetched_twice(tmp_path: Path) -> None:
    apt = Apt(failures=9)
    with pytest.raises(SetupError):
        packages.install(["hpcc"], apt, tmp_path)
    assert apt.calls == ["update", "install"]
