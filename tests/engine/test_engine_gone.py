"""The engine goes away in mid-run: the run fails with a clear text, and the next sweep clears what it left."""

from __future__ import annotations

import gc
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from fifos import heard
from tare import runtimes
from tare.runtimes import engine
from tare.runtimes.base import LABEL_RUN, LaunchError, RunRequest, Stack
from tare.setup import engine_probe

Make = Callable[..., RunRequest]


class Relay:
    """A socket that stands before the engine's; ``cut`` closes it and all that runs through it."""

    def __init__(self, path: Path, target: str) -> None:
        self._target = target
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._stop, self._stopped = os.pipe()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            sides = {one: other for pair in self._pairs for one, other in (pair, pair[::-1])}
            ready, _, _ = select.select([self._stop, self._listener, *sides], [], [])
            if self._stop in ready:
                break
            for one in ready:
                if one is self._listener:
                    outer = self._listener.accept()[0]
                    inner = socket.socket(socket.AF_UNIX)
                    inner.connect(self._target)
                    self._pairs.append((outer, inner))
                else:
                    self._pass_on(one, sides[one])
        self._listener.close()
        for pair in self._pairs:
            for side in pair:
                side.close()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = one.recv(65536)
        if data:
            with suppress(OSError):
                other.sendall(data)
        else:
            self._pairs = [pair for pair in self._pairs if one not in pair]
            one.close()
            other.close()

    def cut(self) -> None:
        if self._thread.is_alive():
            os.write(self._stopped, b".")
            self._thread.join()
            os.close(self._stop)
            os.close(self._stopped)


@pytest.fixture
def relay(tmp_path: Path, tiny_image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    del tiny_image  # made through the engine itself
    target = engine_probe.address(os.environ).removeprefix("unix://")
    path = tmp_path / "relay.sock"
    made = Relay(path, target)
    engine.close()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    yield made
    made.cut()
    engine.close()


# The SDK drops the socket of a connection that fails without closing it (docker.transport.unixconn).
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.engine
def test_engine_that_goes_away_fails_the_run_clearly(
    relay: Relay, host_stack: Stack, tiny_image: str, make_request: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = make_request(replace(host_stack, image=tiny_image), "echo up > $HOME/up; sleep 1000")
    os.mkfifo(request.output / "up")
    runtime = runtimes.get("docker")
    running = runtime.start(runtime.specify(request))
    try:
        assert heard(request.output / "up") == "up\n"
        relay.cut()
        outcome = running.wait(30)
        assert outcome is not None
        assert outcome.exit_code == 125
        assert outcome.detail.startswith("the Docker engine went away or lost the run: ")
        assert outcome.exited_ns > outcome.requested_ns
        running.kill()  # nothing to say it to, and no error
    finally:
        running.close()
    with pytest.raises(LaunchError, match="the Docker engine cannot start the run"):
        runtime.start(runtime.specify(request))
    assert "no engine answers" in str(runtime.unavailable(request.stack))
    # The engine is back: what was left is found by its label.
    engine.close()
    monkeypatch.undo()
    (left,) = engine.api().containers(all=True, filters={"label": f"{LABEL_RUN}={request.run_id}"})
    engine.api().remove_container(left["Id"], force=True)
    gc.collect()  # here, where the warning is expected
