"""``python3 -m tare.setup study|retry|test|plan|clean``: what the Makefile calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tare.setup import apply, clean, plan, workflow
from tare.setup.environment import SetupError
from tare.setup.facts import gather
from tare.software.safe_delete import MountedBelowError

GOALS = ("study", "retry", "test", "plan", "clean")
USAGE = """usage: python3 -m tare.setup <goal> [arguments]
  study [arguments for Snakemake]   set up, then run the study
  retry [--skipped] [arguments …]   remove failed results only, then the same
  test                              set up for the tests and linters
  plan                              print what `study` would do, and do nothing
  clean [--yes]                     remove results (not the reference), .snakemake and tools' caches here"""


def config_files(checkout: Path, arguments: Sequence[str]) -> list[Path]:
    """Return the study configs that Snakemake will read: the default and those of --configfile."""
    files = [checkout / "config" / "config.yaml"]
    for index, argument in enumerate(arguments):
        if argument in ("--configfile", "--configfiles"):
            for name in arguments[index + 1 :]:
                if name.startswith("-"):
                    break
                files.append(checkout / name)
        elif argument.startswith(("--configfile=", "--configfiles=")):
            files.append(checkout / argument.split("=", 1)[1])
    return files


def prepare(checkout: Path, goal: str, arguments: Sequence[str], dry: bool = False) -> None:
    """Look, plan, print, ask, act; raises ``SetupError`` when it cannot go on."""
    facts = gather(checkout, goal, os.environ, config_files(checkout, arguments))
    decided = plan.make_plan(facts, goal)
    text = plan.render(decided)
    if text:
        apply.say(text)
    if decided.stops:
        raise SetupError(plan.render_stops(decided))
    if dry or decided.does_nothing:
        return
    apply.confirm(decided, facts.terminal)
    apply.carry_out(decided, facts, checkout)


def retry(checkout: Path, arguments: list[str]) -> None:
    """Remove failed results; ``--skipped`` (taken out of ``arguments``) also retries what was skipped here."""
    environ = workflow.environment(checkout, os.environ)
    workflow.clear_dead_lock(checkout, environ)
    remover = [str(checkout / ".venv" / "bin" / "python"), "scripts/remove_failed.py"]
    if "--skipped" in arguments:
        arguments.remove("--skipped")
        remover.append("--skipped")
    if subprocess.run(remover, cwd=checkout, env=environ).returncode != 0:
        raise SetupError("failed results could not be removed (see above)")


def run(checkout: Path, goal: str, arguments: list[str]) -> None:
    """Do what a goal stands for; for ``study`` and ``retry`` this process becomes Snakemake and does not return."""
    if goal == "clean":
        clean.clean(checkout, arguments)
        return
    with apply.only_one(checkout):
        prepare(checkout, "test" if goal == "test" else "study", arguments, dry=goal == "plan")
    if goal == "retry":
        retry(checkout, arguments)
    if goal in ("study", "retry"):
        workflow.hand_over(checkout, arguments, os.environ)


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 0, 1 with one message, 2 for a wrong call, 130 when interrupted."""
    goal, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if goal not in GOALS:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        run(Path(__file__).resolve().parents[3], goal, rest)
    except (SetupError, MountedBelowError) as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, EOFError):
        print("\nSet-up was interrupted; run it again to go on where it stopped.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
