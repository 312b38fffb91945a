"""What the Snakefile does besides rules: tell every job whose it is, and say whose lock Snakemake's is."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

from tare.config import Study
from tare.identity import start_ticks
from tare.progress import PLAN_VARIABLE
from tare.run import WORKFLOW_VARIABLE

OWNER = Path(".snakemake/tare-owner.json")


def announce(study: Study) -> None:
    """Put into the environment of every job: the process that asks for it, and the plan for progress lines."""
    plan = {
        "cells": {cell.id: cell.workload for cell in study.expand()},
        "blocks": study.blocks,
        "runs": len(study.measured_runtimes()) + 1,
    }
    os.environ[WORKFLOW_VARIABLE] = str(os.getpid())
    os.environ[PLAN_VARIABLE] = json.dumps(plan)


def begin() -> None:
    """Prepare this Snakemake process, when it starts to run jobs."""
    # Snakemake's own handler waits for the running jobs, and hangs when they end by the same signal. Ended at once,
    # as by Ctrl-C, a block is measured again; its run ends with the workflow.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    write_owner()


def write_owner(path: Path = OWNER) -> None:
    """Say whose Snakemake's lock is, so that `make study` clears it only when its owner is dead."""
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "starttime": start_ticks(os.getpid())}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(owner) + "\n", encoding="utf-8")
