"""Signals held back while something is made that must not be half there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold back the signals that end this process, and deliver the first that came at the end.

    By handlers and not by a mask: a child inherits a mask, and could then not be ended by these signals itself.
    Only the main thread may set handlers; in another one nothing is held back, nor does a signal arrive there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda one, _: came.append(one)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
