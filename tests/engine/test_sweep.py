"""Nothing is left after the next start: a measuring process is ended in mid-run, by each signal (cases 43, 44)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tare
from fifos import heard
from tare import processes, runtimes
from tare.identity import is_dead, owner_id
from tare.runtimes import engine, run_cgroups
from tare.runtimes.base import LABEL_OWNER, LABEL_RUN, RunRequest, Stack
from tare.sweep import sweep

SOURCE = str(Path(tare.__file__).parents[1])
# Starts one run, says so, and waits for its end: argv = runtime, image, rootfs, python, output, run id.
MEASURE = """
import json, os, sys
from pathlib import Path
from tare import runtimes
from tare.identity import owner_id
from tare.runtimes.base import RunRequest, Stack
name, image, root, python, output, run_id = sys.argv[1:]
spec = json.loads(os.environ.get("ENGINE_SPEC", "null"))
owner = owner_id()
request = RunRequest(
    run_id=run_id, study="test", stack=Stack("tiny", host_python=python, image=image or None, rootfs=Path(root),
    engine_spec=spec),
    output=Path(output), data=None, worker_wheel="w.whl",
    environment={"TARE_RUN_ID": run_id, "TARE_OWNER": owner}, uid=os.getuid(), gid=os.getgid(), owner=owner)
runtime = runtimes.get(name)
running = runtime.start(runtime.specify(request))
print(owner, flush=True)
running.wait()
"""
SWEEP = "import json; from tare.sweep import sweep; print(json.dumps(sweep()))"
# Its child leaves the session and the process group: only its environment tells whose it is.
WORKER = "mkdir $HOME/deep; touch $HOME/deep/file; sleep 1000 & echo up > $HOME/up; wait"

NEEDS = {
    "host": (),
    "chroot": ("chroot",),
    "chroot-userns": ("userns",),
    "crun": ("chroot", "crun", "engine"),
}
ALL = [
    pytest.param(name, marks=pytest.mark.needs(*NEEDS.get(name, ("engine",)))) for name in runtimes.RUNTIMES
]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def left_over(run_id: str, containers: bool) -> list[str]:
    found = [f"process {pid}" for pid in processes.find(lambda marks: marks["TARE_RUN_ID"] == run_id)]
    if containers:
        label = f"{LABEL_RUN}={run_id}"
        found += [c["Id"] for c in engine.api().containers(all=True, filters={"label": label})]
    found += [group for group in groups() if run_id in group]
    return found


def groups() -> set[str]:
    """Return the control groups that crun made for runs."""
    return {path.name for folder in run_cgroups.hierarchies() for path in (folder / "tare").glob("*@*")}


def swept(run_id: str) -> list[str]:
    """Sweep, and return what was removed of one run: the machine may have leftovers of others."""
    return [text for text in sweep() if run_id in text]


def fill(output: Path, run_id: str) -> str:
    output.mkdir(exist_ok=True)
    (output / "fake.sh").write_text(WORKER)
    os.mkfifo(output / "up")
    return f"{run_id}-{os.getpid()}"


def measuring(name: str, stack: Stack, output: Path, run_id: str) -> subprocess.Popen[str]:
    argv = [name, stack.image or "", str(stack.rootfs), str(stack.host_python), str(output), run_id]
    return subprocess.Popen(
        [sys.executable, "-c", MEASURE, *argv],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE, "ENGINE_SPEC": json.dumps(stack.engine_spec)},
    )


@pytest.fixture
def stack(host_stack: Stack, tiny_root: Path, request: pytest.FixtureRequest) -> Stack:
    name = request.node.callspec.params["name"]
    needs_image = "docker" in name or name == "crun"
    return replace(
        host_stack,
        rootfs=tiny_root,
        image=request.getfixturevalue("tiny_image") if needs_image else None,
        engine_spec=request.getfixturevalue("tiny_spec") if name == "crun" else None,
    )


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", ALL)
def test_nothing_is_left_after_the_next_sweep(
    name: str, number: signal.Signals, stack: Stack, tmp_path: Path
) -> None:
    docker = "docker" in name
    output = tmp_path / "output"
    run_id = fill(output, f"sweep-{name}-{number.name}")
    with measuring(name, stack, output, run_id) as parent:
        try:
            assert parent.stdout is not None
            owner = parent.stdout.readline().strip()
            assert owner, "the measuring process did not start its run"
            assert heard(output / "up") == "up\n"
            assert swept(run_id) == []  # of a living owner
            assert left_over(run_id, docker)
            parent.send_signal(number)
            parent.wait(30)
        finally:
            parent.kill()
    assert is_dead(owner)
    removed = swept(run_id)
    assert left_over(run_id, docker) == []
    assert swept(run_id) == []
    # On the host the worker dies with its parent; what it started in turn is what the sweep finds.
    kinds = {"crun": {"process", "control"}}.get(name, {"container" if docker else "process"})
    assert {text.split()[0] for text in removed} == kinds
    shutil.rmtree(output)


@pytest.mark.engine
@pytest.mark.needs("ordinary_user")
@pytest.mark.parametrize("name", ["docker", "docker-pure", "docker-hardened"])
def test_ordinary_user_sweeps_its_own_and_can_delete_everything(
    name: str, stack: Stack, user_dir: Path, as_user: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    output = user_dir / "output"
    run_id = fill(output, f"user-{name}")
    uid = user_dir.stat().st_uid
    for path in (output, output / "fake.sh", output / "up"):
        os.chown(path, uid, uid)
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCE}:{packages}", "HOME": str(user_dir)}
    argv = [name, str(stack.image), str(stack.rootfs), str(stack.host_python), str(output), run_id]
    # The user's shell starts the measurement, waits until it is in mid-run, and kills it.
    script = (
        'python3 -c "$MEASURE" "$@" & pid=$!; cat "$UP"; kill -KILL $pid; wait $pid 2>/dev/null; '
        'python3 -c "$SWEEP"; python3 -c "$SWEEP"; ls -ln "$OUT/deep"; rm -r "$OUT" && echo deleted'
    )
    done = as_user(
        ["/bin/bash", "-c", script, "bash", *argv],
        docker=True,
        cwd="/",
        env=environment | {"MEASURE": MEASURE, "SWEEP": SWEEP, "UP": str(output / "up"), "OUT": str(output)},
        timeout=120,
    )
    lines = done.stdout.splitlines()
    up = lines.index("up")
    told = [json.loads(line) for line in lines[up:] if line.startswith("[")]
    assert len(told) == 2, done
    first, second = ([text for text in texts if run_id in text] for texts in told)
    assert [text.split()[0] for text in first] == ["container"], done
    assert second == []
    assert any(f" {uid} {uid} " in line and line.endswith(" file") for line in lines), done
    assert lines[-1] == "deleted", done
    assert left_over(run_id, True) == []


@pytest.mark.engine
@pytest.mark.parametrize("name", ["docker"])
def test_what_is_not_ours_or_of_another_host_is_never_touched(
    name: str, stack: Stack, make_request: Callable[..., RunRequest]
) -> None:
    api, runtime = engine.api(), runtimes.get(name)
    host, pid, ticks = owner_id().split(":")
    strangers = {
        "another host": {"tare": "x", LABEL_OWNER: f"ffffffffffffffff:{pid}:1"},
        "no owner": {"tare": "x"},
        "not ours": {"other": "x", LABEL_OWNER: f"{host}:{pid}:1"},
    }
    made = [
        api.create_container(stack.image, entrypoint=["/bin/sleep", "1000"], labels=labels)["Id"]
        for labels in strangers.values()
    ]
    mine = runtime.start(runtime.specify(make_request(stack, "sleep 1000")))
    try:
        removed = sweep()
        assert not [text for text in removed for container in made if container[:12] in text]
        present = {container["Id"] for container in api.containers(all=True)}
        assert set(made) <= present
        assert mine.wait(0) is None
    finally:
        mine.close()
        for container in made:
            api.remove_container(container, force=True)
    # the same with a dead owner of this host goes
    dead = {"tare": "x", LABEL_OWNER: f"{host}:{pid}:{int(ticks) + 1}", LABEL_RUN: "r9"}
    container = api.create_container(stack.image, entrypoint=["/bin/sleep", "1000"], labels=dead)["Id"]
    assert f"container {container[:12]} of run r9 (created)" in sweep()
    assert container not in {one["Id"] for one in api.containers(all=True)}


def test_sweep_without_an_engine_still_ends_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    host, pid, ticks = owner_id().split(":")
    with subprocess.Popen(
        ["/bin/sleep", "1000"],
        env={"TARE_RUN_ID": "r8", "TARE_OWNER": f"{host}:{pid}:{int(ticks) + 1}"},
    ) as child:
        assert f"process {child.pid} of run r8" in sweep()
        assert child.wait() == -signal.SIGKILL
