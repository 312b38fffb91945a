"""Running an installed program: found by name, its output kept in memory, what it loads told."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from tare.workloads.last_words import last_words

PATH = "/usr/local/bin:/usr/bin:/bin"


class ToolError(RuntimeError):
    """A program cannot be run here; the message names what is missing and the fix."""


class Said(NamedTuple):
    """How a program ended and what it printed."""

    status: int
    stdout: str
    stderr: str


def find(name: str, package: str) -> str:
    """Return the path of program ``name``; raises ``ToolError`` naming the Debian package that has it."""
    path = shutil.which(name, path=os.environ.get("PATH", PATH))
    if path is None:
        raise ToolError("%s is not installed; install the package %s" % (name, package))
    return path


def run(command: Sequence[str], folder: str) -> Said:
    """Run ``command`` in ``folder`` and return what it said.

    Its output goes to memory (memfd_create(2)): a file would add writes to the disk that is measured, and a pipe
    a second process that empties it.
    """
    with (
        os.fdopen(os.memfd_create("stdout"), "w+b") as out,
        os.fdopen(os.memfd_create("stderr"), "w+b") as err,
    ):
        status = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False
        ).returncode
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
    return Said(status, *texts)


def exit_reasons(name: str, said: Said) -> List[str]:
    """Return why the program's numbers do not count: it failed, or it complained."""
    words = last_words(said.stderr)
    if said.status != 0:
        return ["%s ended with status %d: %s" % (name, said.status, words or "no message")]
    return ["%s complained: %s" % (name, words)] if words else []


def libraries(program: str, variables: Optional[Mapping[str, str]] = None) -> List[str]:
    """Return the program and what the loader maps for it, without running it; links resolved, sorted."""
    environment: Dict[str, str] = {**os.environ, **(variables or {}), "LD_TRACE_LOADED_OBJECTS": "1"}
    listed = subprocess.run(
        [program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    ).stdout.decode("utf-8", "replace")
    paths = re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listed, re.MULTILINE)
    return sorted({os.path.realpath(path) for path in [program, *paths]})
