"""The empty workload: what starting and ending a process of a stack costs, and the floor under every figure."""

from __future__ import annotations

from tare.worker.request import Request
from tare.worker.task import Task
from tare.workloads.declaration import Metric, Workload

WORKLOADS = (
    Workload(
        name="startup",
        title="empty workload: the floor under every figure",
        stack="hpc",
        adapter=__name__,
        factors={},
        metrics=(
            Metric("start_seconds", "startup", "s", True, "request to first instruction"),
            Metric("total_seconds", "startup", "s", True, "request to exit"),
            Metric("create_seconds", "startup", "s", True, "request to container created", optional=True),
            Metric("start_call_seconds", "startup", "s", True, "engine's call to start", optional=True),
            Metric(
                "first_instruction_seconds",
                "startup",
                "s",
                True,
                "created to first instruction",
                optional=True,
            ),
            Metric("exit_seconds", "startup", "s", True, "end of the worker to exit seen", optional=True),
        ),
        layer="start-up",
        expected_seconds=0.5,
    ),
)


def set_up(request: Request) -> Task:
    """Return a task without a step."""
    return Task()
