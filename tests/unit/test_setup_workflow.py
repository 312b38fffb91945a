"""Snakemake's lock: cleared only when its owner is dead for certain; and becoming Snakemake."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tare.setup import workflow
from tare.setup.__main__ import config_files
from tare.setup.environment import SetupError


def process(proc: Path, pid: int, started: int, argv: list[str], cwd: Path, state: str = "S") -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (python3.11) {state} {' '.join(['1'] * 18)} {started} 0 0\n")
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in argv) + b"\0")
    (folder / "cwd").symlink_to(cwd)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".snakemake" / "locks").mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    return folder


def own(checkout: Path, **owner: object) -> None:
    (checkout / workflow.OWNER).write_text(json.dumps(owner))


def owner(checkout: Path) -> str | None:
    return workflow.living_owner(checkout, checkout.parent / "proc", host="here")


#: what runs, without why
CALM = ["--quiet", "reason", "host", "--keep-going"]
SNAKEMAKE = ["/x/.venv/bin/python3.11", "/x/.venv/bin/snakemake", "--cores", "all"]


def test_living_owner(checkout: Path) -> None:
    own(checkout, host="here", pid=8, starttime=500)
    process(checkout.parent / "proc", 8, 500, SNAKEMAKE, checkout)
    assert owner(checkout) == "process 8"


@pytest.mark.parametrize(("started", "state"), [(501, "S"), (500, "Z")])
def test_reused_pid_and_zombie_are_dead(checkout: Path, started: int, state: str) -> None:
    own(checkout, host="here", pid=8, starttime=500)
    process(checkout.parent / "proc", 8, started, ["bash"], checkout, state)
    assert owner(checkout) is None


def test_another_host_cannot_be_asked(checkout: Path) -> None:
    own(checkout, host="node7", pid=8, starttime=500)
    assert owner(checkout) == "process 8 on host node7"


@pytest.mark.parametrize(
    "text", [None, "", "[]", '{"pid": 1}', '{"host": "here", "pid": null, "starttime": 1}']
)
def test_without_a_readable_owner_the_processes_are_searched(checkout: Path, text: str | None) -> None:
    if text is not None:
        (checkout / workflow.OWNER).write_text(text)
    assert owner(checkout) is None
    process(checkout.parent / "proc", 9, 1, SNAKEMAKE, checkout)
    assert owner(checkout) == "process 9"


def test_a_snakemake_that_has_just_started_is_found_beside_a_dead_owner(checkout: Path) -> None:
    own(checkout, host="here", pid=8, starttime=500)
    process(checkout.parent / "proc", 9, 1, SNAKEMAKE, checkout)
    assert owner(checkout) == "process 9"


@pytest.mark.parametrize("argv", [["vim", "Snakefile"], ["tail", "-f", "a", "snakemake"], [""]])
def test_other_processes_here_are_no_owner(checkout: Path, argv: list[str]) -> None:
    process(checkout.parent / "proc", 9, 1, argv, checkout)
    assert owner(checkout) is None


def test_a_snakemake_elsewhere_is_no_owner(checkout: Path) -> None:
    process(checkout.parent / "proc", 9, 1, SNAKEMAKE, checkout.parent)
    assert owner(checkout) is None


def test_this_very_process_lives() -> None:
    assert workflow.start_time(os.getpid()) is not None


def fake_snakemake(checkout: Path, status: int = 0) -> Path:
    program = checkout / ".venv" / "bin" / "snakemake"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$@" >> {checkout}/calls\nrm -f .snakemake/locks/*\nexit {status}\n')
    program.chmod(0o755)
    return checkout / "calls"


def test_dead_lock_is_cleared(checkout: Path) -> None:
    calls = fake_snakemake(checkout)
    (checkout / workflow.LOCKS / "0.output.lock").touch()
    workflow.clear_dead_lock(checkout, dict(os.environ))
    assert calls.read_text() == "--unlock --quiet\n"
    assert not workflow.locked(checkout)


def test_without_a_lock_nothing_is_started(checkout: Path) -> None:
    calls = fake_snakemake(checkout)
    workflow.clear_dead_lock(checkout, dict(os.environ))
    assert not calls.exists()


def test_a_living_owners_lock_is_kept(checkout: Path) -> None:
    calls = fake_snakemake(checkout)
    own(checkout, host="another", pid=8, starttime=500)
    (checkout / workflow.LOCKS / "0.output.lock").touch()
    with pytest.raises(
        SetupError, match=r"a study is running in this folder already \(process 8 on host another\)"
    ):
        workflow.clear_dead_lock(checkout, dict(os.environ))
    assert not calls.exists()


def test_a_lock_that_stays_is_an_error(checkout: Path) -> None:
    fake_snakemake(checkout, status=1)
    (checkout / workflow.LOCKS / "0.output.lock").touch()
    with pytest.raises(SetupError, match="could not remove its lock"):
        workflow.clear_dead_lock(checkout, dict(os.environ))


@pytest.mark.parametrize(
    ("arguments", "started"),
    [
        ([], [*CALM, "--cores", "all"]),
        (["-n", "--configfile", "x.yaml"], ["--cores", "all", "-n", "--configfile", "x.yaml"]),
        (["--cores", "1"], [*CALM, "--cores", "1"]),
        (["-c1"], [*CALM, "-c1"]),
        (["--jobs=2", "results/x"], [*CALM, "--jobs=2", "results/x"]),
        (["--quiet", "all"], ["--cores", "all", "--quiet", "all"]),
        (["--verbose"], ["--cores", "all", "--verbose"]),
    ],
)
def test_hand_over(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], started: list[str]
) -> None:
    became: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *call: became.append(call))
    monkeypatch.setattr(os, "chdir", lambda _: None)
    workflow.hand_over(
        checkout, arguments, {"PATH": "/bin", "PYTHONPATH": "src", "MAKEFLAGS": "s", "HOME": "/h"}
    )
    snakemake = f"{checkout}/.venv/bin/snakemake"
    clean = {"HOME": "/h", "PATH": f"{checkout}/.venv/bin:/bin", "VIRTUAL_ENV": f"{checkout}/.venv"}
    assert became == [(snakemake, [snakemake, *started], clean)]


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ([], []),
        (["--configfile", "a.yaml", "b.yaml", "-n"], ["a.yaml", "b.yaml"]),
        (["--configfile=a.yaml"], ["a.yaml"]),
        (["-n", "--configfiles", "/etc/a.yaml"], ["/etc/a.yaml"]),
    ],
)
def test_config_files(arguments: list[str], more: list[str]) -> None:
    root = Path("/c")
    assert config_files(root, arguments) == [root / "config/config.yaml", *(root / name for name in more)]
