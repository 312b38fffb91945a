"""Runs of adapters whose native program is a script that prints a recorded result, and of the real programs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapter_requests import adapter_request
from tare.worker.request import Request
from tare.workloads.declaration import Level

SCRIPT = """#!/bin/sh
echo "$@" > "$(dirname "$0")/arguments"
cat <<'END'
{result}
END
"""
GB = 10**9


def request(folder: Path, workload: str, factors: Mapping[str, Level], memory: int = 8 * GB) -> Request:
    """Return the request of a run in ``folder``, whose test files belong to ``folder``/files."""
    (folder / "files").mkdir(exist_ok=True)
    given = {"files": str(folder / "files"), "memory_bytes": memory}
    return adapter_request(workload, folder, factors, seed=7, threads=2, **given)


def put_result(folder: Path, program: str, result: Mapping[str, Any]) -> None:
    """Make ``folder``/``program`` a script that prints ``result``; its arguments are kept in ``folder``/arguments."""
    (folder / program).write_text(SCRIPT.format(result=json.dumps(result)))
    (folder / program).chmod(0o755)


def put_program(folder: Path, path: Path) -> None:
    """Copy a compiled program into the folder of a run."""
    shutil.copy(path, folder / path.name)


def said(path: Path, *arguments: str, **options: Any) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error of a program."""
    done = subprocess.run(
        [path, *arguments], text=True, capture_output=True, check=False, timeout=60, **options
    )
    return done.returncode, done.stdout, done.stderr
