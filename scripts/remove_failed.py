"""Remove failed results, and nothing else, so that the next study makes them again (`make retry`).

Usage: python scripts/remove_failed.py [--skipped]   (--skipped: also software that this machine could not have)
"""

import argparse
from pathlib import Path

from tare import retry

RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> None:
    """Remove status files and blocks; print each and how many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skipped", action="store_true", help="also forms of software marked skipped")
    statuses = {"failed", "skipped"} if parser.parse_args().skipped else {"failed"}
    count = retry.remove([*retry.status_files(RESULTS, statuses), *retry.blocks(RESULTS)])
    print(f"retry: {count} failed result(s) removed" if count else "retry: nothing has failed")


if __name__ == "__main__":
    main()
