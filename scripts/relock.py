"""Resolve every lock in envs/ anew from its .in files: Debian packages with apt, wheels with uv (`make relock`).

Usage: python scripts/relock.py [--mirror URL|auto] [LOCK …]   (no LOCK: all, the pipeline's own included)
"""

import argparse
import sys
from pathlib import Path

from tare.software.errors import SoftwareError
from tare.software.relock import PIPELINE, TOOLS, relock_debs, relock_pipeline, relock_wheels

ENVS = Path(__file__).resolve().parent.parent / "envs"


def main() -> int:
    """Write the locks; returns the exit status."""
    stacks = sorted(path.name.removesuffix(".debs.in") for path in ENVS.glob("*.debs.in"))
    known = [*stacks, *TOOLS, *PIPELINE]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("locks", nargs="*", metavar="LOCK", help=f"of: {', '.join(known)}; none: all")
    parser.add_argument(
        "--mirror", default="auto", help="URL of a Debian mirror (default: auto, as apt is configured)"
    )
    chosen = parser.parse_args()
    unknown = set(chosen.locks) - set(known)
    if unknown:
        parser.error(f"no such lock: {', '.join(sorted(unknown))}; allowed: {', '.join(known)}")
    wanted = chosen.locks or known
    try:
        for name in (n for n in [*stacks, *TOOLS] if n in wanted):
            relock_wheels(ENVS, name)
        if set(stacks) & set(wanted):
            relock_debs(ENVS, stacks, chosen.mirror)  # all: they share one base
        for name in (n for n in PIPELINE if n in wanted):
            relock_pipeline(ENVS, name)
    except SoftwareError as error:
        print(f"relock: {error}", file=sys.stderr)
        return 1
    print(f"locked: {', '.join(wanted)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
