"""Rule measure_block: measures one block. A program of its own, so that an edit here reruns nothing by itself."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from tare.config import Disturbance
from tare.machine_lock import LockError
from tare.measure import BlockRequest, DiskFullError, measure_block
from tare.run import WorkflowGoneError
from tare.sweep import SweepError
from tare.variants import Variant


def parse() -> argparse.Namespace:
    """Return the command line of rule measure_block."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("study", "cell", "measuring"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--block", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--input", type=Path, nargs="+", required=True)
    return parser.parse_args()


def end(number: int, _: FrameType | None) -> None:
    """Leave by an exception, so that the run in hand is ended and its folder removed."""
    sys.exit(128 + number)


def main() -> None:
    """Measure the block of the command line."""
    args = parse()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    given = json.loads(args.measuring)
    given.pop("harness")
    limits = Disturbance(**given.pop("disturbance"))
    given["variants"] = {name: Variant(label=name, **one) for name, one in given["variants"].items()}
    inputs = {path.stem: path for path in args.input if path.suffix == ".json"}
    forms = {form: inputs.pop(form, None) for form in ("image", "rootfs", "venv", "dataset")}
    forms["native"] = next(iter(inputs.values()), None)  # its file bears the program's name
    wheel = next(path for path in args.input if path.suffix == ".whl")
    request = BlockRequest(
        study=args.study, cell=args.cell, block=args.block, disturbance=limits, wheel=wheel, **forms, **given
    )
    try:
        measure_block(request, args.output)
    except WorkflowGoneError as gone:
        sys.exit(f"[tare] {gone}; nothing was written, this block is measured again")
    except (DiskFullError, LockError, SweepError) as refused:
        sys.exit(f"[tare] {refused}")


if __name__ == "__main__":
    main()
