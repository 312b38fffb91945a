"""The rungs between chroot and docker, for real: each adds its feature and no other, and nothing outlives its run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fifos import heard
from tare import processes, runtimes
from tare.runtimes import run_cgroups
from tare.runtimes.base import CREATED, STARTED, LaunchError, Outcome, RunRequest, Stack
from tare.runtimes.crun_run import bundle_of
from tare.variants import LEFT_OUT, Variant
from tare.worker.mounts import Mount, parse_mountinfo

pytestmark = [pytest.mark.engine, pytest.mark.root, pytest.mark.needs("chroot", "crun")]

Make = Callable[..., RunRequest]
SPACES = ("pid", "ipc", "uts", "net", "mnt", "user", "cgroup")
TELL = (
    "cat /proc/self/status > $HOME/status; cat /proc/self/mountinfo > $HOME/mountinfo; "
    "cat /proc/self/cgroup > $HOME/cgroup; "
    f"for n in {' '.join(SPACES)}; do echo $n=$(stat -L -c %i /proc/self/ns/$n); done; "
)
#: what is left out of crun on each rung, from the lowest: the ladder of config/presets/attribution.yaml
LADDER = {
    "mount": ("pid", "ipc", "network", "cgroup", "capabilities", "seccomp", "apparmor"),
    "processes": ("network", "cgroup", "capabilities", "seccomp", "apparmor"),
    "network": ("cgroup", "capabilities", "seccomp", "apparmor"),
    "cgroup": ("capabilities", "seccomp", "apparmor"),
    "capabilities": ("seccomp", "apparmor"),
    "seccomp": (),
}


@dataclass(frozen=True)
class Seen:
    """What a worker finds around itself."""

    spaces: Mapping[str, int]
    status: Mapping[str, str]
    mounts: Mapping[str, Mount]
    groups: frozenset[str]
    outcome: Outcome

    @property
    def own_spaces(self) -> set[str]:
        """The namespaces that are not this process's."""
        return {name for name in SPACES if self.spaces[name] != Path(f"/proc/self/ns/{name}").stat().st_ino}


def variant(base: str = "crun", **entries: Any) -> Variant:
    return Variant.model_validate({"base": base, "label": "a label", **entries})


def run(request: RunRequest, how: Variant | str, seconds: float = 60) -> Outcome:
    runtime = runtimes.get(how) if isinstance(how, str) else runtimes.make("mine", how)
    running = runtime.start(runtime.specify(request))
    try:
        outcome = running.wait(seconds)
        assert outcome is not None
        return outcome
    finally:
        running.close()


def look(make_request: Make, stack: Stack, how: Variant | str, script: str = "", **changes: Any) -> Seen:
    request = make_request(stack, TELL + script, **changes)
    outcome = run(request, how)
    assert outcome.exit_code == 0, (outcome.detail, (request.output / "stderr.txt").read_text())
    out = request.output
    lines = dict(line.split("=", 1) for line in (out / "stdout.txt").read_text().splitlines())
    status = dict(line.split(":\t", 1) for line in (out / "status").read_text().splitlines() if ":\t" in line)
    return Seen(
        {name: int(lines[name]) for name in SPACES},
        status,
        {mount.point: mount for mount in parse_mountinfo((out / "mountinfo").read_text())},
        frozenset(line.split(":", 2)[2] for line in (out / "cgroup").read_text().splitlines()),
        outcome,
    )


@pytest.fixture
def stack(host_stack: Stack, tiny_root: Path, tiny_image: str, tiny_spec: Mapping[str, Any]) -> Stack:
    return replace(host_stack, rootfs=tiny_root, image=tiny_image, engine_spec=tiny_spec)


def test_lowest_rung_is_the_mounts_of_the_engine_and_nothing_else(stack: Stack, make_request: Make) -> None:
    seen = look(make_request, stack, variant(without=LADDER["mount"]))
    assert seen.own_spaces == {"mnt"}
    assert (seen.mounts["/"].type, "rw" in seen.mounts["/"].options.split(",")) == ("overlay", True)
    assert seen.status["Seccomp"] == "0"
    assert seen.status["CapEff"] == OWN_CAPABILITIES
    assert not any("/tare/" in group for group in seen.groups)


def test_each_rung_adds_its_own_namespaces(stack: Stack, make_request: Make) -> None:
    engines = set(stack.engine_spec["oci"]["linux"]["namespaces"] if stack.engine_spec else ())
    cgroup = {"cgroup"} & engines  # control groups version 2
    expected = {
        "mount": {"mnt"},
        "processes": {"mnt", "pid", "ipc", "uts"},
        "network": {"mnt", "pid", "ipc", "uts", "net"},
        "cgroup": {"mnt", "pid", "ipc", "uts", "net"} | cgroup,
        "seccomp": {"mnt", "pid", "ipc", "uts", "net"} | cgroup,
    }
    for rung, spaces in expected.items():
        seen = look(make_request, stack, variant(without=LADDER[rung]))
        assert seen.own_spaces == spaces, rung


def test_control_group_begins_on_its_rung(stack: Stack, make_request: Make) -> None:
    mine = frozenset(line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines())
    below = look(make_request, stack, variant(without=LADDER["network"]))
    above = look(make_request, stack, variant(without=LADDER["cgroup"]))
    assert below.groups == mine
    assert any(group.startswith("/tare/test-") or group == "/" for group in above.groups)
    assert above.groups != mine


def test_capabilities_and_seccomp_begin_on_their_rungs(stack: Stack, make_request: Make) -> None:
    flags = {}
    for rung in ("cgroup", "capabilities", "seccomp"):
        seen = look(make_request, stack, variant(without=LADDER[rung]))
        flags[rung] = (seen.status["CapEff"], seen.status["Seccomp"])
    assert flags["cgroup"][0] != flags["capabilities"][0] == flags["seccomp"][0]
    assert [two[1] for two in flags.values()] == ["0", "0", "2"]


def test_uppermost_rung_is_docker_but_for_what_the_engine_adds_around_it(
    stack: Stack, make_request: Make
) -> None:
    """The next step, to docker, is the engine, its init, log, veth pair and shim: all else is already there."""
    crun, docker = (look(make_request, stack, how) for how in ("crun", "docker"))
    for name in ("Seccomp", "CapEff", "CapBnd", "CapPrm", "CapInh", "NoNewPrivs", "Speculation_Store_Bypass"):
        assert crun.status.get(name) == docker.status.get(name), name
    assert crun.own_spaces == docker.own_spaces

    def places(seen: Seen) -> dict[str, str]:
        own = (
            "/tare",
            "/etc/",
            "/sbin/docker-init",
            "/proc/",
            "/sys/",
        )  # of one container; masks differ in type
        return {point: mount.type for point, mount in seen.mounts.items() if not point.startswith(own)}

    assert places(crun) == places(docker)
    masks = {
        point for point in docker.mounts if point.startswith(("/proc/", "/sys/")) and "cgroup" not in point
    }
    assert masks == {
        point for point in crun.mounts if point.startswith(("/proc/", "/sys/")) and "cgroup" not in point
    }


def test_without_overlay_the_root_is_the_folder_itself_and_read_only(
    stack: Stack, make_request: Make, tiny_root: Path
) -> None:
    before = sorted(tiny_root.rglob("*"))
    seen = look(
        make_request, stack, variant(without=["overlay"]), "touch /new && exit 3; touch /tmp/new || exit 4"
    )
    assert seen.mounts["/"].type != "overlay"
    assert "ro" in seen.mounts["/"].options.split(",")
    assert sorted(tiny_root.rglob("*")) == before


def test_what_is_written_into_the_overlay_is_gone_with_the_run(
    stack: Stack, make_request: Make, tiny_root: Path
) -> None:
    before = sorted(tiny_root.rglob("*"))
    look(make_request, stack, variant(), "echo x > /new; rm /usr/bin/id", location="layer")
    assert sorted(tiny_root.rglob("*")) == before


def test_user_namespace_keeps_every_id(stack: Stack, make_request: Make) -> None:
    seen = look(make_request, stack, variant(user_namespace=True), "test $(id -u) = 0 || exit 3")
    assert "user" in seen.own_spaces
    assert (make_request(stack, "").output / "status").stat().st_uid == os.getuid()


def test_options_are_limits_of_the_runs_own_group(stack: Stack, make_request: Make) -> None:
    how = variant(cpus="all", cpuset="0", memory_bytes=256 << 20, shm_bytes=1 << 20)
    seen = look(make_request, stack, how)
    assert seen.status["Cpus_allowed_list"] == "0"
    assert "size=1024k" in seen.mounts["/dev/shm"].super_options


def test_memory_limit_reached_is_said(stack: Stack, make_request: Make) -> None:
    # The shell's variable doubles until the limit ends it.
    request = make_request(stack, "x=0123456789abcdef; while :; do x=$x$x; done")
    outcome = run(request, variant(memory_bytes=16 << 20))
    assert (outcome.exit_code, outcome.oom_killed) == (137, True)
    assert "memory limit" in outcome.detail


@pytest.mark.parametrize("without", [(), LADDER["mount"], LEFT_OUT["crun"]])
def test_nothing_is_mounted_for_the_machine_and_nothing_is_left(
    without: tuple[str, ...], stack: Stack, make_request: Make
) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    request = make_request(stack, "echo up > $HOME/up; sleep 1000")
    os.mkfifo(request.output / "up")
    runtime = runtimes.make("mine", variant(without=without))
    spec = runtime.specify(request)
    running = runtime.start(spec)
    try:
        assert heard(request.output / "up") == "up\n"
        assert Path("/proc/self/mountinfo").read_text() == before
        assert bundle_of(spec).is_dir()
        running.kill()
        outcome = running.wait(30)
        assert outcome is not None
        assert outcome.exit_code == 137
    finally:
        running.close()
        running.close()
    assert Path("/proc/self/mountinfo").read_text() == before
    assert not bundle_of(spec).exists()
    assert not list(processes.find(lambda marks: marks["TARE_RUN_ID"] == request.run_id))
    assert not groups_of(request)


def groups_of(request: RunRequest) -> list[Path]:
    found = [path for folder in run_cgroups.hierarchies() for path in (folder / "tare").glob("*@*")]
    return [path for path in found if request.run_id in path.name]


def test_crun_killed_from_outside_leaves_nothing(stack: Stack, make_request: Make) -> None:
    request = make_request(stack, "echo up > $HOME/up; sleep 1000")
    os.mkfifo(request.output / "up")
    runtime = runtimes.get("crun")
    running = runtime.start(runtime.specify(request))
    try:
        assert heard(request.output / "up") == "up\n"
        family = list(processes.find(lambda marks: marks["TARE_RUN_ID"] == request.run_id))
        crun = [pid for pid in family if Path(f"/proc/{pid}/comm").read_text() == "crun\n"]
        assert len(crun) == 1
        os.kill(crun[0], signal.SIGKILL)
        outcome = running.wait(30)
        assert outcome is not None
        assert (outcome.exit_code, outcome.detail) == (137, "ended by SIGKILL")
    finally:
        running.close()
    assert not list(processes.find(lambda marks: marks["TARE_RUN_ID"] == request.run_id))
    assert not groups_of(request)


def test_specification_that_was_not_asked_for_is_a_clear_failure(stack: Stack, make_request: Make) -> None:
    with pytest.raises(LaunchError, match="what the engine would tell its runtime was not asked"):
        run(make_request(replace(stack, engine_spec=None), "exit 0"), "crun")


OLD = (1 << 38) - 1  # capabilities that every engine knows
OWN_CAPABILITIES = next(
    line.split()[1]
    for line in Path("/proc/self/status").read_text().splitlines()
    if line.startswith("CapBnd")
)
#: variant of docker → what the worker then finds
DOCKER: list[tuple[dict[str, Any], Callable[[Seen], bool]]] = [
    ({"without": ["seccomp"]}, lambda seen: seen.status["Seccomp"] == "0"),
    ({"without": ["network"]}, lambda seen: "net" not in seen.own_spaces),
    ({"without": ["pid"]}, lambda seen: "pid" not in seen.own_spaces),
    ({"without": ["ipc"]}, lambda seen: not {"ipc", "uts"} & seen.own_spaces),
    ({"without": ["overlay"]}, lambda seen: {"/usr/bin", "/usr/lib", "/usr/local"} <= seen.mounts.keys()),
    (
        {"without": ["capabilities"]},
        lambda seen: int(seen.status["CapEff"], 16) & OLD == int(OWN_CAPABILITIES, 16) & OLD,
    ),
    ({"cap_add": ["SYS_PTRACE"]}, lambda seen: bool(int(seen.status["CapEff"], 16) >> 19 & 1)),
    ({"shm_bytes": 1 << 20}, lambda seen: "size=1024k" in seen.mounts["/dev/shm"].super_options),
]


@pytest.mark.parametrize(("entries", "holds"), DOCKER, ids=[str(entries) for entries, _ in DOCKER])
def test_variant_of_docker(
    entries: dict[str, Any], holds: Callable[[Seen], bool], stack: Stack, make_request: Make
) -> None:
    assert not holds(look(make_request, stack, "docker"))
    assert holds(look(make_request, stack, variant("docker", **entries)))


def test_options_of_docker_are_those_the_engine_says_it_took(stack: Stack, make_request: Make) -> None:
    options = {"cpus": "all", "cpuset": "0", "memory_bytes": 1 << 30, "log_driver": "none", "network": "none"}
    config = look(make_request, stack, variant("docker", **options)).outcome.facts["host_config"]
    assert config["NanoCpus"] == (os.cpu_count() or 0) * 10**9
    assert (config["CpusetCpus"], config["Memory"], config["NetworkMode"]) == ("0", 1 << 30, "none")
    assert config["LogConfig"]["Type"] == "none"


def test_variant_of_docker_without_init_is_process_1(stack: Stack, make_request: Make) -> None:
    request = make_request(stack, "echo $$")
    assert run(request, variant("docker", without=["init"])).exit_code == 0
    assert (request.output / "stdout.txt").read_text() == "1\n"


def test_moments_of_a_start_by_the_engine(stack: Stack, make_request: Make) -> None:
    outcome = run(make_request(stack, "exit 0"), "docker")
    moments = outcome.moments
    assert outcome.requested_ns < moments[CREATED] < moments[STARTED] < outcome.exited_ns
    assert run(make_request(stack, "exit 0"), "crun").moments == {}
