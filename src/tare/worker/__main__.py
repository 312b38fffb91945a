"""``python -m tare.worker <request.json>``: one run, in a process of its own."""

import time

#: the first instruction of the worker: read before anything of it is imported
STARTED_NS = time.monotonic_ns()

if __name__ == "__main__":
    import sys

    from tare.worker.run import main

    sys.exit(main(sys.argv[1:], STARTED_NS))
