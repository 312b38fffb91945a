"""Which mirrors serve a suite, and what is refused."""

from pathlib import Path

import pytest

from tare.software import apt
from tare.software.errors import Skipped

KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEBIAN = """\
http://m/debian/|bookworm|bookworm|main|Debian|$(SIGNED_BY)
http://m/debian/|bookworm|bookworm|contrib|Debian|$(SIGNED_BY)
http://m/debian/|bookworm-updates|bookworm-updates|main|Debian|/k.gpg
http://m/debian-security/|stable-security|bookworm-security|main|Debian|
http://vendor/|bookworm|bookworm|main|Vendor|/vendor.gpg
"""


def test_own_sources_takes_debians_main_and_its_keys() -> None:
    assert apt.own_sources("bookworm", DEBIAN) == [
        f"deb [signed-by={KEY}] http://m/debian/ bookworm main",
        "deb [signed-by=/k.gpg] http://m/debian/ bookworm-updates main",
        f"deb [signed-by={KEY}] http://m/debian-security/ stable-security main",
    ]


def test_origin_unknown_before_the_first_update_is_accepted() -> None:
    line = "http://m/debian/|bookworm|$(CODENAME)|main|$(ORIGIN)|$(SIGNED_BY)\n"
    assert apt.own_sources("bookworm", line) == [f"deb [signed-by={KEY}] http://m/debian/ bookworm main"]


@pytest.mark.parametrize(
    "targets",
    [
        "",
        "http://u/ubuntu/|jammy|jammy|main|Ubuntu|\n",
        "http://vendor/|bookworm|bookworm|main|Vendor|\n",
        "http://m/debian/|bookworm-updates|bookworm-updates|main|Debian|\n",
        DEBIAN.replace("bookworm", "trixie"),
    ],
)
def test_apt_of_another_distribution_serves_nothing(targets: str) -> None:
    assert apt.own_sources("bookworm", targets) == []


def test_snapshot_is_asked_for_the_day_after_the_lock() -> None:
    lines = apt.snapshot_sources("bookworm", "http://s/archive/", "20261231T235959Z")
    option = f"[signed-by={KEY} check-valid-until=no]"
    assert lines == [
        f"deb {option} http://s/archive/debian/20270101T235959Z/ bookworm main",
        f"deb {option} http://s/archive/debian/20270101T235959Z/ bookworm-updates main",
        f"deb {option} http://s/archive/debian-security/20270101T235959Z/ bookworm-security main",
    ]


@pytest.mark.parametrize(
    ("mirror", "security"),
    [("http://m/debian/", "http://m/debian-security"), ("file:///srv/debian", "file:///srv/debian-security")],
)
def test_a_given_mirror_has_its_security_part_beside_it(
    monkeypatch: pytest.MonkeyPatch, mirror: str, security: str
) -> None:
    monkeypatch.setattr(apt, "require_tools", lambda *_: None)
    assert (
        apt.sources_for("bookworm", mirror)[-1] == f"deb [signed-by={KEY}] {security} bookworm-security main"
    )
    assert len(apt.sources_for("bookworm", "http://m/mirror")) == 2


def test_missing_tools_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(apt.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "absent.gpg")
    with pytest.raises(Skipped, match=r"install: apt-get install mmdebstrap uidmap debian-archive-keyring$"):
        apt.require_tools("mmdebstrap", "newuidmap")


def test_a_machine_without_apt_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt.shutil, "which", lambda _: None)
    with pytest.raises(Skipped, match=r"no apt.*use Debian or Ubuntu"):
        apt.require_tools()


def test_status_text_installs_the_records() -> None:
    text = apt.status_text([{"Package": "a", "Version": "1"}, {"Package": "b", "Version": "2"}])
    assert text == (
        "Package: a\nVersion: 1\nStatus: install ok installed\n"
        "\nPackage: b\nVersion: 2\nStatus: install ok installed\n"
    )
