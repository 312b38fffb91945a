"""Fetching debs and wheels: the cache is trusted only by hash, and every refusal names what to do."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tare.config import Base
from tare.software import debs, wheels
from tare.software.errors import SoftwareError
from tare.software.locks import Deb, DebLock, Requirement, StackLock, WheelLock


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


DATA = b"package"
DEB = Deb("hpcc", "1.5.0-3", "amd64", sha256(DATA), len(DATA))
LOCK = DebLock("bookworm", "20261129T005313Z", (DEB,))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were asked, none of which has anything."""
    calls: list[str] = []

    def nothing(wanted: Sequence[Deb], sources: Sequence[str]) -> tuple[list[Deb], str]:
        calls.extend(sources)
        return [*wanted], "W: no network" if sources == ["mirror"] else ""

    monkeypatch.setattr(debs, "_fetch_from", nothing)
    monkeypatch.setattr(debs, "sources_for", lambda _suite, _mirror: ["mirror"])
    monkeypatch.setattr(debs, "snapshot_sources", lambda suite, url, moment: [f"{url} {suite} {moment}"])
    return calls


def test_a_cached_package_is_not_fetched_again(asked: list[str]) -> None:
    debs.cached(DEB).parent.mkdir(parents=True)
    debs.cached(DEB).write_bytes(DATA)
    assert debs.fetch_debs(LOCK, Base()) == [debs.cached(DEB)]
    assert asked == []


@pytest.mark.parametrize("damage", [b"packagX", b"", b"package and more"])
def test_a_damaged_package_is_removed_and_fetched_again(asked: list[str], damage: bytes) -> None:
    debs.cached(DEB).parent.mkdir(parents=True)
    debs.cached(DEB).write_bytes(damage)
    with pytest.raises(SoftwareError):
        debs.fetch_debs(LOCK, Base())
    assert asked == ["mirror"]
    assert not debs.cached(DEB).exists()


@pytest.mark.usefixtures("asked")
def test_a_version_that_is_gone_is_refused_with_both_remedies() -> None:
    with pytest.raises(SoftwareError) as refusal:
        debs.fetch_debs(LOCK, Base())
    assert str(refusal.value) == (
        "the Debian mirror does not have the locked hpcc 1.5.0-3 (apt: W: no network); "
        "set software.base.snapshot to the URL of a Debian snapshot archive, or lock what it has now: `make relock`"
    )


def test_the_snapshot_is_asked_with_the_locks_time_when_configured(asked: list[str]) -> None:
    with pytest.raises(
        SoftwareError, match=r"neither the Debian mirror nor the snapshot archive has.*hpcc 1\.5\.0-3"
    ):
        debs.fetch_debs(LOCK, Base(snapshot="http://s"))
    assert asked == ["mirror", "http://s bookworm 20261129T005313Z"]


def test_other_content_from_the_mirror_is_refused(tmp_path: Path) -> None:
    (tmp_path / DEB.file_name).write_bytes(b"altered")
    with pytest.raises(SoftwareError, match=r"hpcc_1\.5\.0-3_amd64\.deb: downloaded .*damaged or altered"):
        debs._keep([DEB], tmp_path)
    assert not debs.cached(DEB).exists()


def stack(tmp_path: Path, wish: str = "") -> StackLock:
    (tmp_path / "s.lock.txt").write_text(
        f"# python 3.11 manylinux_2_17_x86_64\nw==1.0 --hash=sha256:{sha256(b'w')} --hash=sha256:{'0' * 64}\n"
    )
    (tmp_path / "s.in").write_text(wish)
    return StackLock(tmp_path, "s")


def keep_wheel(
    cache: Path, data: bytes, name: str = "w-1.0-py3-none-any.whl", as_: bytes | None = None
) -> Path:
    home = cache / "wheels" / sha256(data if as_ is None else as_)
    home.mkdir(parents=True)
    (home / name).write_bytes(data)
    return home / name


class Pip:
    """Stands for pip download: has the wheel when asked with ``needs``."""

    def __init__(self, cache: Path, needs: list[str] | None) -> None:
        self.cache, self.needs, self.calls = cache, needs, list[list[str]]()

    def __call__(self, _wanted: Sequence[Requirement], _lock: WheelLock, options: Sequence[str]) -> str:
        self.calls.append([*options])
        if [*options] != self.needs:
            return "ERROR: no matching distribution"
        keep_wheel(self.cache, b"w")
        return ""


def test_pips_own_configuration_is_asked_first_and_alone(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip(cache, needs=[])
    monkeypatch.setattr(wheels, "_download", pip)
    lock = stack(tmp_path, "--extra-index-url https://project/whl\nw\n")
    assert [path.name for path in wheels.fetch_wheels(lock)] == ["w-1.0-py3-none-any.whl"]
    assert pip.calls == [[]]
    wheels.fetch_wheels(lock)
    assert pip.calls == [[]]


def test_the_projects_index_is_asked_only_after_that(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip(cache, needs=["--extra-index-url", "https://project/whl"])
    monkeypatch.setattr(wheels, "_download", pip)
    wheels.fetch_wheels(stack(tmp_path, "--extra-index-url https://project/whl\nw\n"))
    assert pip.calls == [[], ["--extra-index-url", "https://project/whl"]]


@pytest.mark.parametrize("wish", ["w\n", "--extra-index-url https://project/whl\nw\n"])
def test_wheels_that_are_nowhere_are_refused_with_both_remedies(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, wish: str
) -> None:
    monkeypatch.setattr(wheels, "_download", Pip(cache, needs=None))
    with pytest.raises(
        SoftwareError, match=r"s\.lock\.txt.*no matching.*pip config set.*--extra-index-url in envs/s\.in"
    ):
        wheels.fetch_wheels(stack(tmp_path, wish))


def test_a_damaged_wheel_is_not_used(tmp_path: Path, cache: Path) -> None:
    damaged = keep_wheel(cache, b"W", as_=b"w")
    requirement = stack(tmp_path).wheels().requirements[0]
    assert wheels.cached(requirement) is None
    assert not damaged.exists()


def test_a_wheelhouse_holds_the_wheels_and_the_hashed_lock(tmp_path: Path, cache: Path) -> None:
    keep_wheel(cache, b"w")
    wheels.lay_out(stack(tmp_path), tmp_path / "house")
    assert sorted(path.name for path in (tmp_path / "house").iterdir()) == [
        "requirements.txt",
        "w-1.0-py3-none-any.whl",
    ]
    assert f"--hash=sha256:{sha256(b'w')}" in (tmp_path / "house/requirements.txt").read_text()


def test_target_options_name_older_tags_too() -> None:
    options = wheels.target_options(WheelLock("3.11", "manylinux_2_28_x86_64", ()))
    assert options[:4] == ["--python-version", "3.11", "--implementation", "cp"]
    assert [options[i + 1] for i, word in enumerate(options) if word == "--abi"] == ["cp311", "abi3", "none"]
    platforms = [options[i + 1] for i, word in enumerate(options) if word == "--platform"]
    assert platforms[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"} <= {
        *platforms
    }
    assert "manylinux_2_29_x86_64" not in platforms


def test_index_options_read_both_spellings(tmp_path: Path) -> None:
    (tmp_path / "x.in").write_text("# c\n--extra-index-url https://a/b\ntorch\n--find-links=/w\n")
    assert wheels.index_options(tmp_path / "x.in") == [
        "--extra-index-url",
        "https://a/b",
        "--find-links",
        "/w",
    ]
    assert wheels.index_options(tmp_path / "absent.in") == []
