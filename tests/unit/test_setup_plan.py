"""The plan for machines of every kind, as data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tare.setup import needs, plan, pythons
from tare.setup.engine_probe import EngineState
from tare.setup.environment import VenvState
from tare.setup.facts import Disk, Facts

SOCKET = "unix:///var/run/docker.sock"
UP = EngineState("answers", SOCKET)
ABSENT = EngineState("absent", SOCKET, f"no engine answers at {SOCKET} (no such file or directory)")
DENIED = EngineState("denied", SOCKET, "permission denied on the engine's socket")
GB = 10**9
BARE = pythons.Python("/usr/bin/python3", (3, 11), venv=False)
WHOLE = pythons.Python("/usr/bin/python3", (3, 11), venv=True)
OWN = pythons.Python("/opt/python/bin/python3", (3, 12), venv=True)
APT = "apt-get install -y --no-install-recommends"
HPC = ("hpcc", "libopenblas0-pthread", "openmpi-bin", "ioping", "fio", "iperf3")


def disks(free: int = 100 * GB, **changed: Disk) -> dict[str, Disk]:
    names = {"checkout": "/home/ada/tare", "cache": "/home/ada/.cache/tare", "engine": "/var/lib/docker"}
    return {place: Disk(1, "/", free, folder) for place, folder in names.items()} | changed


def packages(*names: str) -> tuple[needs.Package, ...]:
    return tuple(package for package in needs.PACKAGES if package.name in names)


READY = Facts(
    root=True,
    user="root",
    os_name="Debian GNU/Linux 12 (bookworm)",
    debian_like=True,
    systemd=False,
    terminal=False,
    may_change_system=True,
    engine=UP,
    engine_is_default=True,
    engine_installed=True,
    in_docker_group=False,
    missing=(),
    has_subids=True,
    pythons=(),
    venv=VenvState("ready", "up to date"),
    bootstrap=True,
    built=True,
    disks=disks(),
)
FRESH = replace(
    READY,
    engine=ABSENT,
    engine_installed=False,
    missing=packages("mmdebstrap", "debian-archive-keyring", *HPC),
    pythons=(BARE,),
    venv=VenvState("make", "there is none yet"),
    built=False,
)
ORDINARY = replace(
    FRESH, root=False, user="ada", missing=(), pythons=(WHOLE,), engine=UP, engine_installed=True
)


def test_nothing_to_do_says_nothing() -> None:
    decided = plan.make_plan(READY, "study")
    assert decided.does_nothing
    assert (decided.stops, decided.notes) == ((), ())
    assert plan.render(decided) == ""


def test_fresh_debian_root() -> None:
    decided = plan.make_plan(FRESH, "study")
    assert decided.packages == ("docker.io", "python3-venv", "mmdebstrap", "debian-archive-keyring", *HPC)
    assert decided.start_engine
    assert decided.changes_system
    assert (decided.python, decided.venv) == ("/usr/bin/python3", "there is none yet")
    assert decided.stops == ()
    assert decided.disk == ("/: up to 12.0 GB needed, 100.0 GB free",)
    assert decided.minutes == 16
    assert plan.render(decided).splitlines() == [
        "Set-up:",
        f"  install packages   docker.io python3-venv mmdebstrap debian-archive-keyring {' '.join(HPC)}",
        "  start              the Docker engine",
        "  make .venv         from /usr/bin/python3 (there is none yet)",
        "  disk               /: up to 12.0 GB needed, 100.0 GB free",
        "  time               about 16 min in all, less when it was done before",
    ]


def test_ubuntu_root_with_docker_running() -> None:
    ubuntu = replace(FRESH, os_name="Ubuntu 24.04 LTS", engine=UP, engine_installed=True)
    decided = plan.make_plan(ubuntu, "study")
    assert not decided.start_engine
    assert "docker.io" not in decided.packages


def test_stopped_engine_is_started_and_not_installed() -> None:
    decided = plan.make_plan(replace(READY, engine=ABSENT), "study")
    assert (decided.packages, decided.start_engine, decided.stops) == ((), True, ())


def test_ordinary_user_with_docker_changes_nothing_of_the_system() -> None:
    decided = plan.make_plan(ORDINARY, "study")
    assert (decided.packages, decided.start_engine, decided.stops) == ((), False, ())
    assert decided.python == "/usr/bin/python3"


def test_ordinary_user_goes_on_without_what_is_optional() -> None:
    decided = plan.make_plan(replace(ORDINARY, missing=packages(*HPC)), "study")
    assert decided.stops == ()
    assert decided.notes == (
        f"runtime host of stack hpc will be skipped: {', '.join(HPC)} not installed. "
        f"To have it: sudo {APT} {' '.join(HPC)}",
    )


def test_what_is_optional_is_noted_by_its_purpose() -> None:
    facts = replace(READY, may_change_system=False, missing=packages("hpcc", "crun"))
    assert plan.make_plan(facts, "study").notes == (
        f"runtime host of stack hpc will be skipped: hpcc not installed. To have it: {APT} hpcc",
        f"runtimes made from crun will be skipped: crun not installed. To have it: {APT} crun",
    )


def test_ordinary_user_is_given_every_command_at_once() -> None:
    facts = replace(
        ORDINARY, engine=ABSENT, engine_installed=False, has_subids=False, missing=packages("uidmap")
    )
    text = plan.render_stops(plan.make_plan(facts, "study"))
    assert f"sudo {APT} uidmap." in text
    assert "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ada" in text
    assert f"sudo {APT} docker.io && sudo usermod -aG docker ada (then log in again)" in text
    assert text.count("\n") == 3


@pytest.mark.parametrize(
    ("changes", "stop"),
    [
        (
            {"engine": DENIED},
            f"permission denied on {SOCKET}: group docker may use it. sudo usermod -aG docker ada, "
            "then log in again",
        ),
        (
            {"engine": DENIED, "in_docker_group": True},
            f"permission denied on {SOCKET}: group docker may use it, and "
            "this session began before ada was in it. Log in again, or: newgrp docker",
        ),
        (
            {"engine": ABSENT, "systemd": True, "in_docker_group": True},
            f"{ABSENT.detail}. Start it: sudo systemctl start docker",
        ),
        (
            {"engine": ABSENT},
            f"{ABSENT.detail}. Start it: sudo service docker start && sudo usermod -aG docker ada (then log in again)",
        ),
        (
            {"engine": ABSENT, "rootless_socket": "unix:///run/user/1000/docker.sock"},
            f"{ABSENT.detail}. A rootless engine answers: export DOCKER_HOST=unix:///run/user/1000/docker.sock",
        ),
        (
            {"engine": EngineState("unusable", "ssh://x", "DOCKER_HOST=ssh://x is not …")},
            "DOCKER_HOST=ssh://x is not …",
        ),
        (
            {
                "engine": EngineState("absent", "unix:///x", "no engine answers at unix:///x"),
                "engine_is_default": False,
            },
            "DOCKER_HOST is set and no engine answers at unix:///x. Start that engine, or unset DOCKER_HOST to use the "
            "usual one",
        ),
    ],
)
def test_engine_out_of_reach(changes: dict[str, object], stop: str) -> None:
    assert plan.make_plan(replace(ORDINARY, **changes), "study").stops == (stop,)  # type: ignore[arg-type]


def test_an_engine_named_by_docker_host_is_never_started_here() -> None:
    decided = plan.make_plan(replace(READY, engine=ABSENT, engine_is_default=False), "study")
    assert not decided.start_engine
    assert len(decided.stops) == 1


def test_fedora_is_told_what_to_install() -> None:
    fedora = replace(
        FRESH,
        os_name="Fedora Linux 43",
        debian_like=False,
        pythons=(WHOLE,),
        missing=packages("mmdebstrap"),
        systemd=True,
    )
    assert plan.make_plan(fedora, "study").stops == (
        "missing packages (mmdebstrap bootstraps the images' Debian). Install them: with Fedora Linux 43's package "
        "manager, the equivalent of Debian's mmdebstrap. Or take the images' Debian from a registry: "
        "software.base.source: registry in config/config.yaml",
        f"{ABSENT.detail}. Set-up installs one on Debian and Ubuntu only, and this is Fedora Linux 43: install "
        "Docker Engine with its package manager, then: systemctl start docker",
    )


def test_tare_system_no_names_the_commands() -> None:
    decided = plan.make_plan(replace(FRESH, may_change_system=False), "study")
    assert not decided.changes_system
    assert decided.stops == (
        f"/usr/bin/python3 cannot make virtual environments. Install the module: {APT} python3-venv",
        "missing packages (mmdebstrap bootstraps the images' Debian; debian-archive-keyring verifies Debian's "
        f"packages). Install them: {APT} mmdebstrap debian-archive-keyring. Or take the images' Debian from a "
        "registry: software.base.source: registry in config/config.yaml",
        f"{ABSENT.detail}. Install and start one: {APT} docker.io",
    )


def test_tests_go_on_without_engine_and_packages_but_not_without_python() -> None:
    facts = replace(FRESH, may_change_system=False)
    assert plan.make_plan(facts, "test").stops == (
        f"/usr/bin/python3 cannot make virtual environments. Install the module: {APT} python3-venv",
    )
    decided = plan.make_plan(replace(facts, pythons=(WHOLE,)), "test")
    assert decided.stops == ()
    assert [note.split(" ")[0] for note in decided.notes] == ["runtime", "missing", "no"]


def test_extending_the_environment_needs_no_other_python() -> None:
    decided = plan.make_plan(replace(READY, venv=VenvState("extend", "the tests need more")), "test")
    assert decided.stops == ()
    assert plan.render(decided).splitlines()[1] == "  extend .venv       the tests need more"


def test_no_python_new_enough() -> None:
    (stop,) = plan.make_plan(replace(READY, venv=VenvState("make", "x"), pythons=()), "study").stops
    assert stop.startswith("no Python 3.11 or newer was found, neither the distribution's nor on PATH.")


def test_full_disk_is_refused_before_anything_is_done() -> None:
    decided = plan.make_plan(replace(FRESH, disks=disks(free=11 * GB)), "study")
    (stop,) = decided.stops
    assert stop.startswith("the disk is too full (/: up to 12.0 GB needed, 11.0 GB free). Make room")


def test_each_file_system_is_judged_for_itself() -> None:
    engine = Disk(2, "/var/lib/docker", 2 * GB, "/var/lib/docker")
    decided = plan.make_plan(replace(ORDINARY, disks=disks(engine=engine)), "study")
    assert decided.disk == (
        "/: up to 9.0 GB needed, 100.0 GB free",
        "/var/lib/docker: up to 3.0 GB needed, 2.0 GB free",
    )
    assert len(decided.stops) == 1


def test_a_built_study_needs_little_room() -> None:
    assert plan.make_plan(replace(READY, disks=disks(free=2 * GB)), "study").stops == ()


@pytest.mark.parametrize("goal", ["study", "test"])
def test_folders_that_cannot_be_written(goal: str) -> None:
    closed = Disk(1, "/root", 100 * GB, "/root/.cache/tare", writable=False)
    (stop,) = plan.make_plan(replace(ORDINARY, disks=disks(cache=closed)), goal).stops
    assert stop.startswith(
        "/root/.cache/tare cannot be written by ada. set TARE_CACHE to a folder of your own"
    )


def test_distributions_python_before_one_on_the_path() -> None:
    assert pythons.choose([BARE, OWN], may_install=True) == BARE
    assert pythons.choose([BARE, OWN], may_install=False) == OWN
    assert pythons.choose([BARE], may_install=False) is None
    assert pythons.choose([], may_install=True) is None
