"""Set-up on the real machine: an engine of our own beside the running one, killed and started again; ordinary users."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tare.setup import engine, engine_probe
from tare.setup.engine import Daemon
from tare.software.safe_delete import remove_tree

SYSTEM_PYTHON = "/usr/bin/python3"


def end(pidfile: Path, how: signal.Signals) -> None:
    """Send ``how`` to the process in a pid file, and return once it is gone."""
    try:
        pid = int(pidfile.read_text())
        os.kill(pid, how)
    except (OSError, ValueError):
        return
    deadline = time.monotonic() + 30
    while engine.process_name(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.fixture
def second() -> Iterator[Daemon]:
    """An engine with folders, socket, pid file and network of its own, so that the running one is untouched."""
    folder = Path(tempfile.mkdtemp(prefix="tare-engine-"))
    daemon = Daemon(
        folder / "docker.pid",
        folder / "exec",
        f"unix://{folder}/s",
        folder / "log",
        ("--data-root", f"{folder}/data", "--bridge", "none", "--iptables=false", "--ip6tables=false"),
        starter=("unshare", "--net"),  # --bridge none would delete the running engine's bridge
    )
    daemon.exec_root.mkdir()
    yield daemon
    end(daemon.pidfile, signal.SIGTERM)
    end(daemon.exec_root / "containerd" / "containerd.pid", signal.SIGTERM)
    for netns in (daemon.exec_root / "netns").glob("*"):
        subprocess.run(["umount", str(netns)], check=False, capture_output=True)
    subprocess.run(["umount", f"{folder}/data"], check=False, capture_output=True)
    remove_tree(folder)


@pytest.fixture
def dockerd(require: Callable[[str], None]) -> str:
    """The program; a machine whose engine answers but is not Debian's may have none: then it lacks the engine."""
    require("root")
    require("chroot")  # an engine needs the same: mounts in a namespace
    program = shutil.which("dockerd", path="/usr/bin:/usr/sbin:/usr/local/bin")
    if program is None:
        require("engine")
        pytest.fail(
            "an engine answers, but dockerd is not on this machine: it is in another container or host"
        )
    return program


@pytest.mark.engine
@pytest.mark.root
@pytest.mark.usefixtures("dockerd")
def test_engine_is_started_again_after_kill_9(second: Daemon) -> None:
    before = engine_probe.probe()
    bridge = Path("/sys/class/net/docker0").exists()
    said: list[str] = []
    engine.start(second, said.append)
    first = int(second.pidfile.read_text())
    assert said == []
    assert engine_probe.ask(second.address).answers
    engine.start(second, said.append)
    assert int(second.pidfile.read_text()) == first, "a second start must not start a second engine"

    end(second.pidfile, signal.SIGKILL)
    end(second.exec_root / "containerd" / "containerd.pid", signal.SIGKILL)
    assert second.pidfile.exists()
    assert not engine_probe.ask(second.address).answers
    # The worst case: the number was used again by something that is no engine, so dockerd itself would refuse.
    second.pidfile.write_text(str(os.getpid()))
    engine.start(second, said.append)
    assert f"removing {second.pidfile}, left behind by an engine that is gone" in said
    assert engine_probe.ask(second.address).answers
    assert int(second.pidfile.read_text()) not in (first, os.getpid())
    assert engine_probe.probe() == before, "the machine's own engine is untouched"
    assert Path("/sys/class/net/docker0").exists() == bridge, "nor is its network"


@pytest.mark.engine
@pytest.mark.root
@pytest.mark.usefixtures("dockerd")
def test_engine_is_no_child_of_set_up(second: Daemon) -> None:
    engine.start(second, print)
    pid = int(second.pidfile.read_text())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    parent, session = int(fields[1]), int(fields[3])
    assert parent != os.getpid()
    assert session == pid, "a session of its own: Ctrl-C at the terminal does not reach it"


@pytest.mark.engine
@pytest.mark.root
@pytest.mark.usefixtures("dockerd")
def test_engine_that_cannot_start_shows_why(second: Daemon) -> None:
    broken = replace(second, options=(*second.options, "--storage-driver", "nonsense"))
    with pytest.raises(engine.SetupError) as error:
        engine.start(broken, print)
    assert "the Docker engine ended" in str(error.value)
    assert "failed to start daemon: error initializing graphdriver: driver not supported" in str(error.value)
    assert "level=info" not in str(error.value)


@pytest.fixture
def users_checkout(user_dir: Path, repository: Path) -> Path:
    """The part of a checkout that set-up and doctor need, owned by an ordinary user."""
    target = user_dir / "tare"
    for name in ("src", "envs", "config"):
        shutil.copytree(repository / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(repository / "Makefile", target)
    subprocess.run(["chown", "-R", str(user_dir.stat().st_uid), str(target)], check=True)
    return target


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def as_at_login(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}


def test_doctor_as_an_ordinary_user(as_user: Run, users_checkout: Path) -> None:
    argv = ["make", "-s", "doctor", f"PYTHON={SYSTEM_PYTHON}"]
    done = as_user(argv, cwd=users_checkout, env=as_at_login(users_checkout.parent))
    assert done.stderr == ""
    assert "no runtime chroot " in done.stdout
    assert "chroot needs root" in done.stdout
    assert "→ run it as root, or use chroot-userns" in done.stdout
    assert not list(users_checkout.rglob("__pycache__")), "doctor changes nothing"


@pytest.mark.engine
def test_plan_of_an_ordinary_user_with_docker(as_user: Run, users_checkout: Path) -> None:
    argv = [SYSTEM_PYTHON, "-B", "-m", "tare.setup", "plan"]
    env = {**as_at_login(users_checkout.parent), "PYTHONPATH": "src"}
    with_docker = as_user(argv, docker=True, cwd=users_checkout, env=env)
    assert "Docker engine" not in with_docker.stdout, "nothing to start"
    assert "docker.sock" not in with_docker.stderr
    assert "make .venv" in with_docker.stdout
    without = as_user(argv, cwd=users_checkout, env=env)
    assert without.returncode == 1
    assert "permission denied on unix:///var/run/docker.sock: group docker may use it" in without.stderr
    assert not (users_checkout / ".venv").exists()


@pytest.mark.slow
def test_environment_is_made_from_nothing_and_remade_when_broken(tmp_path: Path, repository: Path) -> None:
    for name in ("src", "envs", "config"):
        shutil.copytree(repository / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "PYTHONPATH": "src", "TARE_SYSTEM": "no"}
    argv = [SYSTEM_PYTHON, "-B", "-m", "tare.setup", "test"]
    subprocess.run(argv, cwd=tmp_path, env=env, check=True)
    python = tmp_path / ".venv" / "bin" / "python"
    where = [python, "-c", "import tare, snakemake, pytest; print(tare.__file__)"]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(where, cwd="/", env=clean, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == f"{tmp_path}/src/tare/__init__.py"

    began = time.monotonic()
    again = subprocess.run(argv, cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    assert "make .venv" not in again.stdout
    assert time.monotonic() - began < 10, "the second time there is nothing to do"

    python.unlink()
    remade = subprocess.run(argv, cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    assert "its interpreter no longer runs" in remade.stdout
    assert python.exists()
