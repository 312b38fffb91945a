"""Asking an engine, and telling what a dead one left behind, on recorded trees and sockets of our own."""

from __future__ import annotations

import os
import signal
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tare.setup import engine, engine_probe
from tare.setup.engine import Daemon
from tare.setup.environment import SetupError


class Answer(BaseHTTPRequestHandler):
    status = 200
    body = b'{"ServerVersion": "20.10"}'

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body if self.path == "/info" else b"OK")

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "unix"


class Broken(Answer):
    status = 500


def serve(handler: type[Answer]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tare-") as folder:  # a socket's path has at most 108 bytes
        path = f"{folder}/s"
        with socketserver.ThreadingUnixStreamServer(path, handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            yield f"unix://{path}"
            server.shutdown()
            thread.join()


@pytest.fixture
def answering() -> Iterator[str]:
    yield from serve(Answer)


@pytest.fixture
def broken() -> Iterator[str]:
    yield from serve(Broken)


def test_an_engine_that_answers(answering: str) -> None:
    assert engine_probe.ask(answering).answers
    assert engine_probe.probe({"DOCKER_HOST": answering}).answers
    assert engine_probe.get_json(answering, "/info") == {"ServerVersion": "20.10"}
    assert engine_probe.get_json(answering, "/_ping") is None  # not JSON


def test_an_engine_in_trouble(broken: str) -> None:
    state = engine_probe.ask(broken)
    assert (state.state, state.detail) == (
        "absent",
        f"the engine at {broken} answered /_ping with status 500",
    )
    assert engine_probe.get_json(broken, "/info") is None


def test_nobody_there(tmp_path: Path) -> None:
    where = f"unix://{tmp_path}/none"
    assert engine_probe.ask(where).detail == f"no engine answers at {where} (no such file or directory)"
    assert engine_probe.get_json(where, "/info") is None


@pytest.mark.parametrize("where", ["ssh://host", "tcp://192.0.2.1:2375", "unix", "npipe:////./pipe"])
def test_only_engines_of_this_machine(where: str) -> None:
    state = engine_probe.ask(where)
    assert state.state == "unusable"
    assert state.detail.startswith(
        f"DOCKER_HOST={where} is not an engine of this machine; allowed: unix://<socket>"
    )
    assert engine_probe.get_json(where, "/info") is None


def test_default_address() -> None:
    assert engine_probe.address({}) == "unix:///var/run/docker.sock"
    assert engine_probe.address({"DOCKER_HOST": "unix:///x"}) == "unix:///x"


def process(proc: Path, pid: int, name: str, state: str = "S") -> None:
    (proc / str(pid)).mkdir(parents=True)
    fields = " ".join(["1"] * 18 + [str(1000 + pid)] + ["0"] * 10)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {state} {fields}\n")


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    (tmp_path / "run" / "containerd").mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    return Daemon(tmp_path / "docker.pid", tmp_path / "run", f"unix://{tmp_path}/s", tmp_path / "log")


@pytest.mark.parametrize(
    ("name", "state", "stale"),
    [
        ("dockerd", "S", False),
        ("dockerd", "Z", True),  # dead and not yet reaped: /proc still lists it, dockerd would refuse
        ("bash", "S", True),  # the pid was used again
        (None, "", True),
    ],
)
def test_pid_file_of_the_engine(
    daemon: Daemon, tmp_path: Path, name: str | None, state: str, stale: bool
) -> None:
    daemon.pidfile.write_text("42\n")
    if name:
        process(tmp_path / "proc", 42, name, state)
    assert engine.stale_files(daemon, tmp_path / "proc") == ([daemon.pidfile] if stale else [])


def test_unreadable_pid_file_is_stale(daemon: Daemon, tmp_path: Path) -> None:
    daemon.pidfile.write_text("")
    assert engine.stale_files(daemon, tmp_path / "proc") == [daemon.pidfile]


def test_living_containerd_is_left_alone(daemon: Daemon, tmp_path: Path) -> None:
    folder = daemon.exec_root / "containerd"
    for name in ("containerd.pid", "containerd.sock"):
        (folder / name).write_text("7")
    process(tmp_path / "proc", 7, "containerd")
    assert engine.stale_files(daemon, tmp_path / "proc") == []


def test_dead_containerds_files_are_stale(daemon: Daemon, tmp_path: Path) -> None:
    folder = daemon.exec_root / "containerd"
    for name in ("containerd.pid", "containerd.sock", "containerd.sock.ttrpc", "containerd.toml"):
        (folder / name).write_text("7")
    process(tmp_path / "proc", 7, "python3")
    assert [path.name for path in engine.stale_files(daemon, tmp_path / "proc")] == [
        "containerd.pid",
        "containerd.sock",
        "containerd.sock.ttrpc",
    ]


def test_nothing_left_behind(daemon: Daemon, tmp_path: Path) -> None:
    assert engine.stale_files(daemon, tmp_path / "proc") == []


def test_names_with_brackets_and_spaces(tmp_path: Path) -> None:
    process(tmp_path, 5, "a (b) c")
    assert engine.process_name(5, tmp_path) == "a (b) c"
    assert engine.process_name(6, tmp_path) is None


def test_start_does_nothing_when_it_answers(answering: str, daemon: Daemon) -> None:
    said: list[str] = []
    daemon.pidfile.write_text("1")
    engine.start(Daemon(daemon.pidfile, daemon.exec_root, answering, daemon.log), said.append)
    assert said == []
    assert daemon.pidfile.exists()


def fake_dockerd(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin" / "dockerd"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_an_engine_that_ends_shows_its_log(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_dockerd(tmp_path, 'echo "failed to start daemon: $3 $4"; exit 1', monkeypatch)
    said: list[str] = []
    daemon.pidfile.write_text("999999999")
    with pytest.raises(SetupError) as error:
        engine.start(daemon, said.append)
    assert said == [f"removing {daemon.pidfile}, left behind by an engine that is gone"]
    text = str(error.value)
    assert f"the Docker engine ended; its log, {daemon.log}, ends with:" in text
    assert f"    failed to start daemon: --pidfile {daemon.pidfile}" in text


def test_an_engine_that_is_late_is_an_error(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_dockerd(tmp_path, "echo $$ > $4.real; exec tail -f /dev/null", monkeypatch)
    try:
        with pytest.raises(SetupError, match=r"did not answer within 0 s"):
            engine.start(daemon, print, patience=0.3)
    finally:
        os.kill(int(Path(f"{daemon.pidfile}.real").read_text()), signal.SIGKILL)


def test_without_dockerd(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.shutil, "which", lambda *_, **__: None)
    with pytest.raises(SetupError, match=r"dockerd is not installed; apt-get install docker\.io"):
        engine.start(daemon, print)
