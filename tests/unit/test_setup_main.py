"""What set-up prints and returns, with the machine's facts given; asking, cleaning, the demo."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest
from test_setup_plan import ABSENT, FRESH, READY

import tare.setup.__main__ as command
from tare.setup import apply, clean, packages, workflow
from tare.setup.environment import SetupError
from tare.setup.facts import Facts
from tare.setup.plan import Plan
from tare.software.safe_delete import MountedBelowError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import show_demo

CHANGING = Plan("study", packages=("hpcc",), minutes=1)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Facts]:
    given = {"facts": READY}
    monkeypatch.setattr(command, "gather", lambda *_: given["facts"])
    monkeypatch.setattr(workflow, "hand_over", lambda *_: pytest.fail("Snakemake was started"))
    return given


def test_wrong_goal_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["studdy"]) == 2
    assert command.main([]) == 2
    assert "usage: python3 -m tare.setup <goal>" in capsys.readouterr().err


@pytest.mark.usefixtures("machine")
def test_complete_set_up_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["test"]) == 0
    assert capsys.readouterr() == ("", "")


def test_plan_does_nothing(
    machine: dict[str, Facts], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine["facts"] = FRESH
    monkeypatch.setattr(apply, "carry_out", lambda *_: pytest.fail("the plan was carried out"))
    assert command.main(["plan"]) == 0
    assert capsys.readouterr().out.startswith("Set-up:\n  install packages   docker.io python3-venv")


def test_stops_with_one_message(machine: dict[str, Facts], capsys: pytest.CaptureFixture[str]) -> None:
    machine["facts"] = Facts(**{**READY.__dict__, "engine": ABSENT, "may_change_system": False})
    assert command.main(["study"]) == 1
    assert capsys.readouterr().err == (
        f"Tare cannot go on yet:\n  - {ABSENT.detail}. Start it: service docker start\n"
    )


@pytest.mark.usefixtures("machine")
def test_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "prepare", interrupted)
    assert command.main(["study"]) == 130


@pytest.mark.parametrize(
    ("answer", "agreed"), [("", True), ("Y", True), ("yes", True), ("n", False), ("what", False)]
)
def test_asks_on_a_terminal(answer: str, agreed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda _: answer)
    if agreed:
        apply.confirm(CHANGING, terminal=True)
    else:
        with pytest.raises(SetupError, match="TARE_SYSTEM=no names the commands"):
            apply.confirm(CHANGING, terminal=True)


def test_asks_nothing_without_a_terminal_or_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked"))
    apply.confirm(CHANGING, terminal=False)
    apply.confirm(Plan("study", venv="there is none yet"), terminal=True)


def test_only_one_set_up_at_a_time(tmp_path: Path) -> None:
    def free() -> bool:
        handle = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    with apply.only_one(tmp_path):
        assert not free()
    assert free()


def no_engine(*_: object) -> None:
    raise SetupError("the Docker engine ended")


def test_a_failing_engine_stops_a_study_and_not_the_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(apply.engine, "start", no_engine)
    with pytest.raises(SetupError, match="the Docker engine ended"):
        apply.carry_out(Plan("study", start_engine=True), FRESH, tmp_path)
    apply.carry_out(Plan("test", start_engine=True), FRESH, tmp_path)
    assert "no engine, so its tests will be skipped: the Docker engine ended" in capsys.readouterr().out


def test_packages_come_before_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order: list[str] = []
    monkeypatch.setattr(packages, "install", lambda names: order.append(" ".join(names)))
    monkeypatch.setattr(apply.engine, "start", lambda *_: order.append("engine"))
    monkeypatch.setattr(apply.environment, "make", lambda *_: order.append("venv"))
    decided = Plan(
        "study", packages=("docker.io",), start_engine=True, venv="none", python="/usr/bin/python3"
    )
    apply.carry_out(decided, FRESH, tmp_path)
    assert order == ["docker.io", "engine", "venv"]


def test_retry_takes_its_own_option_out(tmp_path: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/call\n')
    python.chmod(0o755)
    arguments = ["-n", "--skipped"]
    command.retry(tmp_path, arguments)
    assert arguments == ["-n"]
    assert (tmp_path / "call").read_text() == "scripts/remove_failed.py --skipped\n"


@pytest.fixture
def used(tmp_path: Path) -> Path:
    for folder in ("results/quick/blocks", "results/reference", "src", ".snakemake/locks", ".mypy_cache"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def left(checkout: Path) -> list[str]:
    return sorted(path.name for path in [*checkout.iterdir(), *(checkout / "results").iterdir()])


def test_clean_keeps_reference_and_source(used: Path) -> None:
    clean.clean(used, ["--yes"])
    assert left(used) == ["reference", "results", "src"]
    clean.clean(used, ["--yes"])


def test_clean_asks(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left(used)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(SetupError, match="make clean ARGS=--yes"):
        clean.clean(used, [])
    assert left(used) == before


def test_clean_refuses_mounts_and_a_running_study(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left(used)
    monkeypatch.setattr(clean, "mounted_below", lambda path: [path / "dev"] if path.name == "quick" else [])
    with pytest.raises(MountedBelowError, match=r"nothing is removed: .*quick/dev is mounted"):
        clean.clean(used, ["--yes"])
    (used / workflow.LOCKS / "0.lock").touch()
    monkeypatch.setattr(workflow, "living_owner", lambda _: "process 7")
    with pytest.raises(SetupError, match=r"a study is running in this folder \(process 7\)"):
        clean.clean(used, ["--yes"])
    assert left(used) == before


def test_demo_shows_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "summary.md").write_text("# Summary\n")
    (tmp_path / "report.html").write_text("<p>")
    (tmp_path / "machine.json").write_text('{"date": "2026-01-02", "cpu": "Some CPU", "kernel": "6.1"}')
    assert show_demo.main(tmp_path) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Summary\n\nReference study, measured on 2026-01-02: Some CPU, 6.1.")
    assert f"file://{tmp_path}/report.html" in out


def test_demo_without_machine_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "summary.md").write_text("# Summary\n")
    (tmp_path / "report.html").write_text("<p>")
    assert show_demo.main(tmp_path) == 0
    assert "the report names machine and date" in capsys.readouterr().out


def test_demo_without_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "summary.md").write_text("# Summary\n")
    assert show_demo.main(tmp_path) == 1
    assert "lacks report.html. Restore it with `git checkout results/reference`" in capsys.readouterr().err
