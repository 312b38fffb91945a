"""`host`: the machine's own interpreter with the stack's lock in a venv, or installed packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tare.runtimes import launch
from tare.runtimes.base import LaunchSpec, Running, RunRequest, Stack, Unavailable
from tare.runtimes.process import start_process


@dataclass(frozen=True)
class Host:
    """Starts the worker as a plain process of this machine."""

    name: str = "host"

    def unavailable(self, stack: Stack) -> Unavailable | None:
        """Return why the stack has no host form here, or None."""
        if stack.host_python is None:
            return launch.missing(stack, "host")
        if not Path(stack.host_python).exists():
            return Unavailable(
                f"the interpreter {stack.host_python} of stack {stack.name} is gone",
                f"delete results/software/{stack.name}/venv.json and run `make retry`",
                lost=True,
            )
        return None

    def specify(self, request: RunRequest) -> LaunchSpec:
        """Return the launch of the venv's interpreter in the run's own folder. Pure."""
        output = str(request.output)
        return LaunchSpec(
            runtime=self.name,
            kind="process",
            argv=launch.argv(request.stack.host_python or "", output),
            environment=launch.environment(request, output),
            cwd=output,
            output=output,
            data=None if request.data is None else str(request.data),
            files=launch.files(output),
            network="loopback",
            options={**launch.user_options(request), **launch.streams(request.output)},
        )

    def start(self, spec: LaunchSpec) -> Running:
        """Fork and execute it."""
        return start_process(spec)
