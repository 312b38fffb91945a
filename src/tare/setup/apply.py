"""Carrying out a plan: packages, engine, environment, in that order."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tare.setup import engine, environment, packages
from tare.setup.environment import SetupError
from tare.setup.facts import Facts
from tare.setup.plan import Plan
from tare.software.safe_delete import remove_tree


def say(text: str) -> None:
    """Print a line for the person at the terminal, at once."""
    print(text, flush=True)


def _run(argv: Sequence[str]) -> int:
    # Set-up's own PYTHONPATH must not reach the interpreter of the environment being made.
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL).returncode


@contextmanager
def only_one(checkout: Path) -> Iterator[None]:
    """Hold the checkout for set-up; a second set-up waits. The lock dies with the process."""
    handle = os.open(checkout, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is at work in this checkout; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def confirm(plan: Plan, terminal: bool) -> None:
    """On a terminal, ask before the system is changed; raises ``SetupError`` on anything but yes."""
    if not (terminal and plan.changes_system):
        return
    answer = input("This changes the system (packages, engine). Go on? [Y/n] ").strip().lower()
    if answer not in ("", "y", "yes"):
        raise SetupError("nothing was changed; TARE_SYSTEM=no names the commands to do it by hand")


def carry_out(plan: Plan, facts: Facts, checkout: Path) -> None:
    """Do what the plan says; raises ``SetupError`` with the remedy. For ``test`` a failing engine is a warning."""
    if plan.packages:
        say(f"Set-up: installing {' '.join(plan.packages)}")
        packages.install(plan.packages)
    if plan.start_engine:
        _start_engine(plan, facts)
    if plan.venv:
        python = plan.python or sys.executable
        say("Set-up: installing into .venv; this downloads about 0.3 GB the first time")
        environment.make(checkout, plan.goal, python, _run, remove_tree)


def _start_engine(plan: Plan, facts: Facts) -> None:
    say("Set-up: starting the Docker engine")
    try:
        if facts.systemd:
            engine.start_by_systemd(say)
        else:
            engine.start(engine.Daemon(), say)
    except SetupError as error:
        if plan.goal != "test":
            raise
        say(f"Set-up: no engine, so its tests will be skipped: {error}")
