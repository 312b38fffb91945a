"""Signals that are held back: none is lost, none comes early."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tare.signals import ENDING, held_back


class Ended(BaseException):
    """What the handler of these tests raises."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    def end(number: int, _: object) -> None:
        raise Ended(number)

    before = {number: signal.signal(number, end) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_comes_after_what_was_begun(number: signal.Signals) -> None:
    done = []

    def work() -> None:
        with held_back():
            signal.raise_signal(number)
            done.append("all of it")

    with pytest.raises(Ended) as ended:
        work()
    assert (ended.value.args, done) == ((number,), ["all of it"])


def test_the_first_of_several_is_delivered_and_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in ENDING]

    def work() -> None:
        with held_back():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Ended) as ended:
        work()
    assert ended.value.args == (signal.SIGTERM,)
    assert [signal.getsignal(number) for number in ENDING] == before


def test_without_a_signal_nothing_happens_and_an_error_passes() -> None:
    with held_back():
        pass
    with pytest.raises(OSError, match="disk"), held_back():
        raise OSError("disk")


def test_a_child_can_still_be_ended() -> None:
    with held_back():
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.terminate()
    child.communicate()
    assert child.returncode == -signal.SIGTERM


def test_another_thread_holds_nothing_back() -> None:
    done = []

    def work() -> None:
        with held_back():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.getsignal(signal.SIGTERM)]
