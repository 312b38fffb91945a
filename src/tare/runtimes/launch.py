"""What the launch specifications of all runtimes have in common: argument vector and environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tare.runtimes.base import FILES, INSIDE_DATA, INSIDE_OUTPUT, RunRequest, Stack, Unavailable

#: the same text in every runtime; the measuring process's own PATH must not leak into a run
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSIDE_PYTHON = "/usr/bin/python3"
STDOUT, STDERR = "stdout.txt", "stderr.txt"


def argv(python: str, output: str) -> tuple[str, ...]:
    """Return the command that starts the worker on the request in ``output``."""
    return (python, "-m", "tare.worker", f"{output}/request.json")


def environment(request: RunRequest, output: str) -> dict[str, str]:
    """Return the complete environment of a run, made from nothing.

    Raises ``ValueError`` when the request sets a variable that only a runtime can know.
    """
    own = {
        "PATH": PATH,
        "HOME": output,
        "TMPDIR": output,
        "PYTHONPATH": f"{output}/{request.worker_wheel}",
    }
    clash = sorted(set(own) & set(request.environment))
    if clash:
        raise ValueError(
            f"environment of run {request.run_id}: {', '.join(clash)} is set by the runtime; remove it there"
        )
    return dict(sorted({**request.environment, **own}.items()))


def files(output: str) -> str:
    """Return the folder of test files inside the output folder ``output``."""
    return f"{output}/{FILES}"


def folders(request: RunRequest) -> tuple[dict[str, Any], ...]:
    """Return what is bound into a container: the output, read-write, and the data, if any, read-only."""
    output = {"source": str(request.output), "target": INSIDE_OUTPUT, "read_only": False}
    if request.data is None:
        return (output,)
    return (output, {"source": str(request.data), "target": INSIDE_DATA, "read_only": True})


def streams(output: Path) -> dict[str, str]:
    """Return the files that take the worker's standard output and error, as the machine sees them."""
    return {"stdout": str(output / STDOUT), "stderr": str(output / STDERR)}


def missing(stack: Stack, form: str) -> Unavailable:
    """Return why a form (host, image, rootfs) of a stack was not built."""
    text = stack.missing.get(form) or f"the {form} of stack {stack.name} was not built"
    reason, _, remedy = text.partition("; ")
    return Unavailable(reason, remedy or "build it with `make study`")


def user_options(request: RunRequest) -> Mapping[str, int]:
    """Return the ids that the worker runs under."""
    return {"uid": request.uid, "gid": request.gid}
