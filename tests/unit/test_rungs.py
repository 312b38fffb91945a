"""Each feature is exactly its part of what the engine asks for: table-driven, from a recorded specification."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tare.runtimes import engine_spec, rungs
from tare.variants import LEFT_OUT

RECORDED = Path(__file__).parents[1] / "data" / "oci" / "docker-20.10-config.json"
MACHINE = ["CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE"]
HELD = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
]
ENGINE = {
    "oci": engine_spec.normalised(json.loads(RECORDED.read_text(encoding="utf-8")), 1 << 20),
    "capabilities": MACHINE,
}
WHOLE = rungs.rung(ENGINE)


def changed(without: list[str], **options: Any) -> dict[str, tuple[Any, Any]]:
    """Return the dotted fields in which a rung differs from the whole → both values."""
    before, after = flat(WHOLE), flat(rungs.rung(ENGINE, without, rungs.Options(**options)))
    names = sorted({*before, *after})
    return {n: (before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)}


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    found: dict[str, Any] = {}
    for name, inner in value.items():
        found |= flat(inner, f"{prefix}.{name}" if prefix else name)
    return found


def mount(target: str, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in mounts if one["destination"] == target]
    return found


def test_whole_is_what_the_engine_asked_for_without_what_is_one_containers() -> None:
    assert WHOLE["linux"]["namespaces"] == [
        {"type": name} for name in ("mount", "network", "uts", "pid", "ipc")
    ]
    assert WHOLE["process"] == {
        "user": {"uid": 0, "gid": 0, "additionalGids": [0]},
        "capabilities": {"bounding": HELD, "effective": HELD, "permitted": HELD},
        "oomScoreAdj": 0,
    }
    assert [one["destination"] for one in WHOLE["mounts"]] == [
        "/proc",
        "/dev",
        "/dev/pts",
        "/sys",
        "/sys/fs/cgroup",
        "/dev/mqueue",
        "/dev/shm",
    ]
    assert list(WHOLE["linux"]["resources"]) == ["devices"]  # weights and shares of 0 are none
    assert sorted(WHOLE) == ["linux", "mounts", "ociVersion", "process", "root"]
    assert "cgroupsPath" not in WHOLE["linux"]
    assert WHOLE["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"


@pytest.mark.parametrize(
    ("feature", "gone"), [("pid", {"pid"}), ("ipc", {"ipc", "uts"}), ("network", {"network"})]
)
def test_namespaces(feature: str, gone: set[str]) -> None:
    found = changed([feature])["linux.namespaces"]
    assert {one["type"] for one in found[0]} - {one["type"] for one in found[1]} == gone


def test_pid_changes_nothing_else() -> None:
    assert list(changed(["pid"])) == ["linux.namespaces"]


def test_network_takes_its_settings_with_it() -> None:
    assert sorted(changed(["network"])) == [
        "linux.namespaces",
        "linux.sysctl.net.ipv4.ip_unprivileged_port_start",
        "linux.sysctl.net.ipv4.ping_group_range",
    ]


def test_ipc_takes_the_machines_shared_memory() -> None:
    found = changed(["ipc"])
    assert sorted(found) == ["linux.namespaces", "mounts"]
    assert mount("/dev/shm", found["mounts"][1]) == {
        "destination": "/dev/shm",
        "type": "bind",
        "source": "/dev/shm",
        "options": ["rbind", "rprivate", "rw"],
    }


def test_settings_of_a_namespace_that_is_the_machines_are_left_alone() -> None:
    engine = copy.deepcopy(ENGINE)
    engine["oci"]["linux"]["sysctl"] = {"kernel.shmmax": "1", "fs.mqueue.msg_max": "2", "net.x": "3"}
    assert rungs.rung(engine, ["ipc"])["linux"]["sysctl"] == {"net.x": "3"}
    assert rungs.rung(engine, ["network"])["linux"]["sysctl"] == {
        "kernel.shmmax": "1",
        "fs.mqueue.msg_max": "2",
    }


def test_cgroup_is_the_group_its_limits_and_the_view_of_it() -> None:
    found = changed(["cgroup"])
    assert sorted(found) == ["linux.resources.devices", "mounts"]
    assert mount("/sys/fs/cgroup", found["mounts"][1])["source"] == "/sys/fs/cgroup"
    assert mount("/sys/fs/cgroup", found["mounts"][1])["options"] == ["rbind", "rprivate", "ro"]


def test_cgroup_namespace_of_version_2_belongs_to_it() -> None:
    engine = copy.deepcopy(ENGINE)
    engine["oci"]["linux"]["namespaces"].append("cgroup")
    assert {"type": "cgroup"} in rungs.rung(engine)["linux"]["namespaces"]
    assert {"type": "cgroup"} not in rungs.rung(engine, ["cgroup"])["linux"]["namespaces"]


def test_seccomp_alone() -> None:
    found = changed(["seccomp"])
    assert all(name.startswith("linux.seccomp.") and after is None for name, (_, after) in found.items())
    assert "seccomp" not in rungs.rung(ENGINE, ["seccomp"])["linux"]


def test_apparmor_alone() -> None:
    engine = copy.deepcopy(ENGINE)
    engine["oci"]["process"]["apparmorProfile"] = "docker-default"
    assert rungs.rung(engine)["process"]["apparmorProfile"] == "docker-default"
    assert rungs.rung(engine, ["apparmor"]) == WHOLE


def test_without_overlay_the_root_is_read_only_and_tmp_is_not() -> None:
    found = changed(["overlay"])
    assert sorted(found) == ["mounts", "root.readonly"]
    assert found["root.readonly"] == (False, True)
    assert mount("/tmp", found["mounts"][1])["options"] == ["nosuid", "nodev", "mode=1777"]


def test_without_the_engines_capabilities_root_has_all_that_the_machine_has() -> None:
    everything = sorted({*HELD, *MACHINE})
    assert rungs.rung(ENGINE, ["capabilities"])["process"]["capabilities"] == {
        "bounding": everything,
        "effective": everything,
        "permitted": everything,
    }


def test_another_user_than_root_holds_none_of_them() -> None:
    engine = copy.deepcopy(ENGINE)
    engine["oci"]["process"]["capabilities"] |= {"effective": [], "permitted": []}
    options = rungs.Options(cap_add=("SYS_PTRACE",))
    assert rungs.rung(engine, (), options)["process"]["capabilities"] == {
        "bounding": sorted([*HELD, "CAP_SYS_PTRACE"]),
        "effective": [],
        "permitted": [],
    }


@pytest.mark.parametrize("name", ["SYS_PTRACE", "CAP_SYS_PTRACE"])
def test_added_capability(name: str) -> None:
    found = rungs.rung(ENGINE, (), rungs.Options(cap_add=(name,)))["process"]["capabilities"]
    assert set(found["effective"]) - set(HELD) == {"CAP_SYS_PTRACE"}


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"cpus": 1.5}, {"linux.resources.cpu.quota": 150_000, "linux.resources.cpu.period": 100_000}),
        ({"cpuset": "0-1"}, {"linux.resources.cpu.cpus": "0-1"}),
        ({"memory_bytes": 1 << 30}, {"linux.resources.memory.limit": 1 << 30}),
    ],
)
def test_limits(options: dict[str, Any], changes: dict[str, Any]) -> None:
    assert {name: after for name, (_, after) in changed([], **options).items()} == changes


def test_size_of_shared_memory() -> None:
    after = changed([], shm_bytes=4096)["mounts"][1]
    assert mount("/dev/shm", after)["options"] == ["nosuid", "noexec", "nodev", "mode=1777", "size=4096"]


def test_user_namespace_maps_every_id_to_itself() -> None:
    spec = rungs.rung(ENGINE, (), rungs.Options(user_namespace=True))
    assert {"type": "user"} in spec["linux"]["namespaces"]
    every = [{"containerID": 0, "hostID": 0, "size": 4_294_967_295}]
    assert (spec["linux"]["uidMappings"], spec["linux"]["gidMappings"]) == (every, every)


def test_lowest_rung_is_mounts_alone() -> None:
    spec = rungs.rung(ENGINE, LEFT_OUT["crun"])
    assert spec["linux"].keys() == {"namespaces", "maskedPaths", "readonlyPaths"}
    assert spec["linux"]["namespaces"] == [{"type": "mount"}]


def test_engines_specification_is_never_changed() -> None:
    before = copy.deepcopy(ENGINE)
    rungs.rung(ENGINE, LEFT_OUT["crun"], rungs.Options(cpus=1, cap_add=("ALL",), user_namespace=True))
    assert before == ENGINE


def test_completed_for_one_run() -> None:
    spec = rungs.completed(
        WHOLE,
        root="/b/root",
        argv=("python3", "-m", "tare.worker"),
        environment={"A": "1"},
        cwd="/tare",
        user=(7, 8),
        mounts=({"source": "/data", "target": "/data", "read_only": True},),
        cgroup="/tare/r1@h",
    )
    assert spec["root"] == {"readonly": False, "path": "/b/root"}
    assert spec["process"]["args"] == ["python3", "-m", "tare.worker"]
    assert spec["process"]["env"] == ["A=1"]
    assert spec["process"]["user"] == {"uid": 7, "gid": 8, "additionalGids": [0]}
    assert (spec["process"]["cwd"], spec["process"]["terminal"]) == ("/tare", False)
    assert spec["mounts"][:-1] == WHOLE["mounts"]
    assert spec["mounts"][-1]["options"] == ["rbind", "rprivate", "ro"]
    assert (spec["hostname"], spec["linux"]["cgroupsPath"]) == ("tare", "/tare/r1@h")


def test_completed_without_a_name_or_a_group_of_its_own() -> None:
    spec = rungs.completed(
        rungs.rung(ENGINE, ["ipc", "cgroup"]),
        root="/r",
        argv=(),
        environment={},
        cwd="/",
        user=(0, 0),
        mounts=(),
        cgroup=None,
    )
    assert "hostname" not in spec
    assert "cgroupsPath" not in spec["linux"]


def test_bound_shared_memory_becomes_a_file_system_of_its_size() -> None:
    raw = json.loads(RECORDED.read_text(encoding="utf-8"))
    for one in raw["mounts"]:
        if one["destination"] == "/dev/shm":
            one |= {"type": "bind", "source": "/var/lib/docker/x/shm", "options": ["rbind"]}
    found = mount("/dev/shm", engine_spec.normalised(raw, 1 << 20)["mounts"])
    assert (found["type"], found["options"][-1]) == ("tmpfs", "size=1048576")


@pytest.mark.parametrize("folder", engine_spec.STATE_FOLDERS)
def test_bundle_is_found_wherever_the_engine_keeps_it(folder: str, tmp_path: Path) -> None:
    path = tmp_path / folder / "io.containerd.runtime.v2.task/moby/abc/config.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert engine_spec.find_bundle("abc", tmp_path) == path


def test_bundle_that_is_nowhere_names_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"no config.json of container 0123456789ab below /run/containerd, "
    ):
        engine_spec.find_bundle("0123456789abcdef", tmp_path)


def test_own_capabilities_by_the_kernels_mask(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tx\nCapBnd:\t0000010000080001\n")
    assert engine_spec.own_capabilities(status) == ["CAP_CHECKPOINT_RESTORE", "CAP_CHOWN", "CAP_SYS_PTRACE"]
