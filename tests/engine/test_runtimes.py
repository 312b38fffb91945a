"""Every runtime, for real: started, waited for, killed; what the worker sees, and whose the files are."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fifos import heard
from tare import processes, runtimes
from tare.runtimes import base, engine, mounts
from tare.runtimes.base import LaunchError, Outcome, RunRequest, Stack
from tare.runtimes.container import Container

CONTAINERS = ("docker", "docker-pure", "docker-hardened")
NEEDS = {
    "host": (),
    "chroot": ("chroot",),
    "chroot-userns": ("userns",),
    "crun": ("chroot", "crun", "engine"),
} | dict.fromkeys(CONTAINERS, ("engine",))
ALL = [pytest.param(name, marks=pytest.mark.needs(*NEEDS[name])) for name in runtimes.RUNTIMES]
INSIDE = [
    pytest.param(name, marks=pytest.mark.needs(*NEEDS[name])) for name in runtimes.RUNTIMES if name != "host"
]

Make = Callable[..., RunRequest]


@pytest.fixture
def stack(host_stack: Stack, tiny_root: Path, request: pytest.FixtureRequest) -> Stack:
    """All forms that this machine can start."""
    name = request.node.callspec.params.get("name", "") if hasattr(request.node, "callspec") else ""
    needs_image = name in (*CONTAINERS, "crun") or request.node.get_closest_marker("engine")
    image = request.getfixturevalue("tiny_image") if needs_image else None
    spec = request.getfixturevalue("tiny_spec") if name == "crun" else None
    return replace(host_stack, rootfs=tiny_root, image=image, engine_spec=spec)


def run(name: str, request: RunRequest, seconds: float = 60) -> Outcome:
    runtime = runtimes.get(name)
    assert runtime.unavailable(request.stack) is None
    running = runtime.start(runtime.specify(request))
    try:
        outcome = running.wait(seconds)
        assert outcome is not None
        return outcome
    finally:
        running.close()


def told(request: RunRequest) -> dict[str, str]:
    lines = (request.output / "stdout.txt").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("name", ALL)
def test_worker_gets_exactly_the_environment_of_the_specification(
    name: str, stack: Stack, make_request: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    request = make_request(stack, "env")
    assert run(name, request).exit_code == 0
    seen = told(request)
    # What the shell that plays the interpreter adds itself is not the runtime's.
    for own in ("PWD", "OLDPWD", "SHLVL", "_"):
        seen.pop(own, None)
    assert seen == dict(runtimes.get(name).specify(request).environment)


@pytest.mark.parametrize("name", ALL)
def test_outcome_has_the_exit_status_and_both_clocks(name: str, stack: Stack, make_request: Make) -> None:
    before = time.monotonic_ns()
    outcome = run(name, make_request(stack, "echo out; echo err >&2; exit 7"))
    assert before <= outcome.requested_ns < outcome.exited_ns <= time.monotonic_ns()
    assert (outcome.exit_code, outcome.detail, outcome.oom_killed) == (7, "ended with status 7", False)


@pytest.mark.parametrize("name", ALL)
def test_output_goes_to_files_of_the_user(name: str, stack: Stack, make_request: Make) -> None:
    request = make_request(stack, "echo out; echo err >&2; mkdir -p $HOME/deep; touch $HOME/deep/file")
    assert run(name, request).exit_code == 0
    assert (request.output / "stdout.txt").read_text() == "out\n"
    assert (request.output / "stderr.txt").read_text() == "err\n"
    for path in request.output.rglob("*"):
        assert (path.stat().st_uid, path.stat().st_gid) == (request.uid, request.gid), path


@pytest.mark.parametrize("name", ALL)
def test_standard_input_is_empty_and_folder_is_the_output(
    name: str, stack: Stack, make_request: Make
) -> None:
    request = make_request(stack, "cat; echo pwd=$(pwd)")
    assert run(name, request).exit_code == 0
    assert told(request) == {"pwd": runtimes.get(name).specify(request).output}


@pytest.mark.parametrize("name", ALL)
def test_killed_run_says_by_which_signal(name: str, stack: Stack, make_request: Make) -> None:
    outcome = run(name, make_request(stack, "kill -9 $$"))
    if name in ("docker-pure", "crun"):  # as process 1, without an init, a process cannot kill itself
        assert (outcome.exit_code, outcome.detail) == (0, "")
    else:
        assert (outcome.exit_code, outcome.detail) == (137, "ended by SIGKILL")


@pytest.mark.parametrize("name", ALL)
def test_wait_returns_none_at_the_time_out_and_kill_ends_everything(
    name: str, stack: Stack, make_request: Make
) -> None:
    request = make_request(stack, "sleep 1000 & echo started > $HOME/started.txt; wait")
    runtime = runtimes.get(name)
    running = runtime.start(runtime.specify(request))
    try:
        assert running.wait(0.01) is None
        running.kill()
        outcome = running.wait(30)
        assert outcome is not None
        assert outcome.exit_code == 137
        running.kill()  # once more does nothing
        assert running.wait(0) == outcome
    finally:
        running.close()
        running.close()
    assert not list(processes.find(lambda marks: marks["TARE_RUN_ID"] == request.run_id))


@pytest.mark.parametrize("name", ["host", pytest.param("chroot", marks=pytest.mark.needs("chroot"))])
def test_close_ends_what_the_run_left_in_a_session_of_its_own(
    name: str, stack: Stack, make_request: Make
) -> None:
    request = make_request(stack, "sleep 1000 & exit 0")
    assert run(name, request).exit_code == 0
    assert not list(processes.find(lambda marks: marks["TARE_RUN_ID"] == request.run_id))


@pytest.mark.parametrize("name", INSIDE)
def test_data_is_readable_and_not_writable(
    name: str, stack: Stack, make_request: Make, tmp_path: Path
) -> None:
    data = tmp_path / "source"
    data.mkdir()
    (data / "file").write_text("content\n")
    request = make_request(stack, "cat /data/file; touch /data/new 2>/dev/null || echo refused", data=data)
    assert run(name, request).exit_code == 0
    assert (request.output / "stdout.txt").read_text() == "content\nrefused\n"
    assert [path.name for path in data.iterdir()] == ["file"]


@pytest.mark.parametrize("name", INSIDE)
def test_root_filesystem_has_proc_sys_dev_and_a_writable_tmp(
    name: str, stack: Stack, make_request: Make
) -> None:
    script = "touch /tmp/x && ls -d /proc/self/maps /sys/kernel /dev/null /dev/shm && echo > /dev/null && cat /dev/null"
    request = make_request(stack, script)
    outcome = run(name, request)
    assert outcome.exit_code == 0, (request.output / "stderr.txt").read_text()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("chroot", marks=pytest.mark.needs("chroot")),
        pytest.param("chroot-userns", marks=pytest.mark.needs("userns")),
        pytest.param("docker-hardened", marks=pytest.mark.engine),
    ],
)
def test_read_only_root_stays_as_it_was(name: str, stack: Stack, make_request: Make, tiny_root: Path) -> None:
    before = sorted(tiny_root.rglob("*"))
    request = make_request(stack, "touch /new 2>/dev/null && echo dirtied || echo refused")
    assert run(name, request).exit_code == 0
    assert (request.output / "stdout.txt").read_text() == "refused\n"
    assert sorted(tiny_root.rglob("*")) == before


@pytest.mark.needs("chroot")
@pytest.mark.parametrize("name", ["chroot"])
def test_chroot_sys_is_read_only_with_all_below_it(name: str, stack: Stack, make_request: Make) -> None:
    request = make_request(stack, "cat /proc/self/mountinfo")
    assert run(name, request).exit_code == 0
    options = {
        line.split()[4]: line.split()[5].split(",")
        for line in (request.output / "stdout.txt").read_text().splitlines()
    }
    assert all("ro" in flags for point, flags in options.items() if point.startswith("/sys"))
    assert "ro" in options["/"]
    assert "rw" in options["/tare"]


@pytest.mark.needs("chroot")
@pytest.mark.parametrize("name", ["chroot"])
def test_nothing_is_ever_mounted_for_the_machine(name: str, stack: Stack, make_request: Make) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    os.mkfifo((request := make_request(stack, "echo up > $HOME/up; cat $HOME/hold")).output / "up")
    os.mkfifo(request.output / "hold")
    runtime = runtimes.get(name)
    running = runtime.start(runtime.specify(request))
    try:
        assert heard(request.output / "up") == "up\n"
        assert Path("/proc/self/mountinfo").read_text() == before
        (request.output / "hold").write_text("")
        outcome = running.wait(30)
        assert outcome is not None
        assert outcome.exit_code == 0
    finally:
        running.close()


@pytest.mark.needs("chroot")
@pytest.mark.parametrize("name", ["chroot"])
def test_deleting_a_root_filesystem_in_use_leaves_the_machines_dev(
    name: str, stack: Stack, make_request: Make, tiny_root: Path, tmp_path: Path
) -> None:
    """The hazard of design.md §4: kill -9 in a chroot run, then the results and the cache are deleted."""
    copy = tmp_path / "cache" / "root"
    copy.parent.mkdir()
    subprocess.run(["cp", "-a", str(tiny_root), str(copy)], check=True)
    request = make_request(replace(stack, rootfs=copy), "echo up > $HOME/up; sleep 1000")
    os.mkfifo(request.output / "up")
    runtime = runtimes.get(name)
    running = runtime.start(runtime.specify(request))
    devices = sorted(Path("/dev").iterdir())
    try:
        assert heard(request.output / "up") == "up\n"
        (worker, *_) = processes.find(lambda marks: marks["TARE_RUN_ID"] == request.run_id)
        assert not mounts.mount_points_below(str(tmp_path))  # else what follows would be the accident itself
        # While its mounts still exist, which is worse than after its end …
        subprocess.run(["rm", "-rf", str(copy), str(request.output)], check=True)
        os.kill(worker, signal.SIGKILL)
        assert running.wait(30) is not None
    finally:
        running.close()
    subprocess.run(["rm", "-rf", str(copy.parent)], check=True)
    assert not copy.parent.exists()
    assert sorted(Path("/dev").iterdir()) == devices
    assert Path("/dev/null").is_char_device()
    assert not mounts.mount_points_below(str(tmp_path))


@pytest.mark.needs("userns")
@pytest.mark.parametrize("name", ["chroot-userns"])
def test_userns_maps_the_user_to_itself(name: str, stack: Stack, make_request: Make) -> None:
    request = make_request(stack, "echo uid=$(id -u); echo gid=$(id -g)")
    assert run(name, request).exit_code == 0
    assert told(request) == {"uid": str(os.getuid()), "gid": str(os.getgid())}


@pytest.mark.parametrize("name", ALL)
def test_interpreter_that_is_absent_is_a_clear_failure(name: str, stack: Stack, make_request: Make) -> None:
    request = make_request(stack, "exit 0")
    spec = replace(runtimes.get(name).specify(request), argv=("/nowhere/python3",))
    if spec.kind == "oci":
        running = runtimes.get(name).start(spec)
        try:
            outcome = running.wait(60)
        finally:
            running.close()
        assert outcome is not None
        assert outcome.exit_code != 0
        assert "crun: " in outcome.detail
        assert "/nowhere/python3" in outcome.detail
    elif spec.kind == "container":
        options = {**spec.options, "command": ("A=1", "/nowhere/python3")}
        running = runtimes.get(name).start(replace(spec, options=options))
        try:
            outcome = running.wait(60)
        finally:
            running.close()
        assert outcome is not None
        assert outcome.exit_code == 127
        assert "/nowhere/python3" in (request.output / "stderr.txt").read_text()
    else:
        with pytest.raises(LaunchError, match="/nowhere/python3"):
            runtimes.get(name).start(spec)


@pytest.mark.engine
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_removed_and_facts_say_what_the_engine_did(
    name: str, stack: Stack, make_request: Make
) -> None:
    request = make_request(stack, "exit 0")
    outcome = run(name, request)
    label = f"{base.LABEL_RUN}={request.run_id}"
    assert engine.api().containers(all=True, filters={"label": label}) == []
    config = outcome.facts["host_config"]
    assert outcome.facts["engine"]["storage_driver"]
    assert config.get("Init", False) == (name != "docker-pure")
    assert config.get("ReadonlyRootfs", False) == (name == "docker-hardened")
    assert config.get("CapDrop", []) == (["ALL"] if name == "docker-hardened" else [])
    assert config["NetworkMode"] == ("none" if name == "docker-hardened" else config["NetworkMode"])
    assert request.run_id not in str(outcome.facts)


@pytest.mark.engine
def test_memory_limit_reached_is_said(stack: Stack, make_request: Make) -> None:
    limited = Container("docker-limited", memory_bytes=16 * 1024**2)
    # The shell's variable doubles until the limit ends it.
    request = make_request(stack, "x=0123456789abcdef; while :; do x=$x$x; done")
    running = limited.start(limited.specify(request))
    try:
        outcome = running.wait(60)
    finally:
        running.close()
    assert outcome is not None
    assert outcome.oom_killed
    assert "memory limit" in outcome.detail


@pytest.mark.engine
@pytest.mark.parametrize("name", ["docker"])
def test_absent_image_is_unavailable_and_start_says_why(name: str, stack: Stack, make_request: Make) -> None:
    gone = "sha256:" + "0" * 64
    stack = replace(stack, image=gone)
    assert gone in str(runtimes.get(name).unavailable(stack))
    with pytest.raises(LaunchError, match="No such image"):
        runtimes.get(name).start(runtimes.get(name).specify(make_request(stack, "exit 0")))


@pytest.mark.engine
@pytest.mark.parametrize("name", ["docker"])
def test_output_folder_that_is_absent_is_a_clear_failure(name: str, stack: Stack, make_request: Make) -> None:
    request = make_request(stack, "exit 0")
    request = replace(request, output=request.output / "absent")
    with pytest.raises(LaunchError, match="absent"):
        runtimes.get(name).start(runtimes.get(name).specify(request))


@pytest.mark.engine
@pytest.mark.needs("ordinary_user")
@pytest.mark.parametrize("name", CONTAINERS)
def test_results_belong_to_another_user_that_is_asked_for(
    name: str, stack: Stack, make_request: Make, user_dir: Path
) -> None:
    uid = user_dir.stat().st_uid
    request = make_request(
        stack, "mkdir $HOME/deep && touch $HOME/deep/file; id -u", output=user_dir, uid=uid, gid=uid
    )
    (user_dir / "fake.sh").chmod(0o644)
    assert run(name, request).exit_code == 0
    assert (user_dir / "stdout.txt").read_text() == ("0\n" if name == "docker-pure" else f"{uid}\n")
    written = [path for path in user_dir.rglob("*") if path.name != "fake.sh"]
    assert sorted(path.name for path in written) == ["deep", "file", "stderr.txt", "stdout.txt"]
    assert {path.stat().st_uid for path in written} == {uid}
