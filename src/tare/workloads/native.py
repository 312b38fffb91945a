"""The native program of a workload: started from the run's folder, its one JSON object read.

The measuring side puts the file there (``Workload.native``), the very same bytes in every runtime.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Union

from tare.worker.request import Request
from tare.workloads.last_words import last_words

Value = Union[str, int, float]


class NativeError(RuntimeError):
    """A native program that could not be run, or said nothing that can be read; the message says which and why."""


def path(request: Request, program: str) -> str:
    """Return the path of a program's file in the run's folder; raises ``NativeError`` when it is not there."""
    found = os.path.join(request.output, program)
    if not os.path.isfile(found):
        raise NativeError(
            "%s: there is no file %s in the run's folder; the workload must declare native=%r"
            % (program, program, program)
        )
    return found


def command(request: Request, program: str, arguments: Mapping[str, Value]) -> List[str]:
    """Return the command line: the program, then ``--name value`` for each argument, in their order."""
    words = [path(request, program)]
    for name, value in arguments.items():
        words += ["--" + name, str(value)]
    return words


def run(
    request: Request, program: str, arguments: Mapping[str, Value], timeout: Optional[float] = None
) -> Dict[str, Any]:
    """Return what a program prints, as an object; ``timeout`` in seconds.

    It runs in the run's folder with the worker's environment. Raises ``NativeError`` when it cannot be started,
    ends with another status than 0, takes longer, or prints anything but one JSON object.
    """
    words = command(request, program, arguments)
    try:
        done = subprocess.run(
            words,
            cwd=request.output,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        raise NativeError("%s cannot be started: %s" % (program, error)) from None
    except subprocess.TimeoutExpired:
        raise NativeError("%s was ended after %g s; %s" % (program, timeout or 0, _shown(words))) from None
    if done.returncode != 0:
        raise NativeError(
            "%s ended with status %d: %s; %s" % (program, done.returncode, _tail(done.stderr), _shown(words))
        )
    return _read(program, done.stdout)


def _read(program: str, output: bytes) -> Dict[str, Any]:
    try:
        found = json.loads(output.decode("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise NativeError("%s printed something else than one JSON object: %s" % (program, _tail(output)))
    return found


def software(program: str, request: Request) -> Dict[str, Any]:
    """Return what identifies a program in a run's fingerprint: its name and the sha256 of its file."""
    with open(path(request, program), "rb") as file:
        return {"program": program, "sha256": hashlib.sha256(file.read()).hexdigest()}


def _shown(words: List[str]) -> str:
    return "arguments: %s" % (" ".join(words[1:]) or "none")


def _tail(text: bytes) -> str:
    return last_words(text.decode("utf-8", "replace")) or "no output"
