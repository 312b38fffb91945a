"""What a user sees while blocks are measured: what runs, how many are done, about how long the rest takes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from tare.workloads.registry import WORKLOADS

#: {"cells": {id: workload}, "blocks": n, "runs": runs of a block} as JSON, set by the workflow; words only
PLAN_VARIABLE = "TARE_PLAN"
SECONDS_KEY = b"tare.block_seconds"


def duration(seconds: float) -> str:
    """Return a duration for a person: ``45 s``, ``7 min``, ``2 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def measured_seconds(block: Path) -> float | None:
    """Return how long a finished block took, from the file's metadata; None when there is no such block."""
    try:
        value = (pq.read_schema(block).metadata or {}).get(SECONDS_KEY)
        return None if value is None else float(value)
    except (OSError, ValueError):
        return None


def remaining(folder: Path, cells: Mapping[str, str], blocks: int, runs: int) -> tuple[int, int, float]:
    """Return (blocks done, blocks in all, seconds the rest will take).

    ``cells`` maps cell id to workload. A cell without a finished block is estimated from its workload's
    expected seconds times ``runs``, the runs of one block.
    """
    done, seconds = 0, 0.0
    for cell, workload in cells.items():
        times = [
            time
            for n in range(1, blocks + 1)
            if (time := measured_seconds(folder / cell / f"{n}.parquet")) is not None
        ]
        done += len(times)
        per_block = sum(times) / len(times) if times else WORKLOADS[workload].expected_seconds * runs
        seconds += per_block * (blocks - len(times))
    return done, blocks * len(cells), seconds


def say_done(block: Path, cell: str, number: int) -> None:
    """Say that a block is done, and what is left of the study that the workflow named in PLAN_VARIABLE."""
    plan = json.loads(os.environ.get(PLAN_VARIABLE, "null"))
    if plan is None:
        say(f"{cell} block {number}: done")
        return
    done, total, seconds = remaining(block.parent.parent, plan["cells"], plan["blocks"], plan["runs"])
    rest = f"about {duration(seconds)} left" if done < total else "all measured"
    say(f"{cell} block {number} of {plan['blocks']}: done; {done} of {total} blocks, {rest}")


def say(text: str) -> None:
    """Print one line for the user, at once; progress goes to stderr like Snakemake's own."""
    print(f"[tare] {text}", file=sys.stderr, flush=True)
