"""``python3 -m tare.doctor [--json]``: the survey on the terminal; status 1 only when nothing can be measured."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from tare.doctor import able, cpu, gpu, memory, surroundings
from tare.doctor.machine import ABLE, DISTURBS, WARN, Finding, Machine, this_machine

MARKS = {"ok": "ok", "warn": "!", "no": "no", "info": "-"}


def survey(machine: Machine) -> list[Finding]:
    """Return every finding, the abilities first."""
    return [
        *able.able(machine),
        *cpu.findings(machine),
        *memory.findings(machine),
        *surroundings.findings(machine),
        *gpu.disturbs(machine),
    ]


def table(findings: Sequence[Finding], width: int) -> str:
    """Return the findings as text of at most ``width`` columns: mark, check, value (what is good), remedy below."""
    lines = []
    indent = " " * (7 + max(len(finding.check) for finding in findings))
    for group in (ABLE, DISTURBS):
        lines += ["", f"{group}:"]
        for finding in (each for each in findings if each.group == group):
            head = f"  {MARKS[finding.level]:<3}{finding.check}".ljust(len(indent))
            said = f"{finding.value}  [good: {finding.good}]"
            lines += textwrap.wrap(said, width, initial_indent=head, subsequent_indent=indent)
            if finding.remedy:
                lines += textwrap.wrap(
                    f"→ {finding.remedy}", width, initial_indent=indent, subsequent_indent=indent
                )
    return "\n".join(lines[1:])


def conclusion(findings: Sequence[Finding]) -> str:
    """Return the last line: whether to go on."""
    if able.nothing(list(findings)):
        return "Nothing can be measured here yet: follow a remedy marked → above."
    disturbances = sum(finding.level == WARN for finding in findings)
    return (
        f"{disturbances} thing(s) marked ! would disturb a measurement. Nothing was changed. Next: make study"
    )


def main(arguments: Sequence[str]) -> int:
    """Print the survey; returns 0 unless nothing can be measured."""
    parser = argparse.ArgumentParser(prog="make doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    options = parser.parse_args(arguments)
    here = this_machine(Path(__file__).resolve().parents[3])
    found = survey(dataclasses.replace(here, gpus=gpu.gpus()))
    if options.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=2, ensure_ascii=False))
    else:
        print(table(found, min(120, shutil.get_terminal_size((100, 24)).columns)))
        print(f"\n{conclusion(found)}")
    return int(able.nothing(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
