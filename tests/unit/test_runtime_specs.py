"""Launch specifications as data: table-driven, nothing is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tare import config, runtimes
from tare.runtimes import from_variant, launch, rungs
from tare.runtimes.base import RunRequest, Stack, Unavailable
from tare.runtimes.container import Container
from tare.runtimes.engine_spec import CAPABILITIES
from tare.variants import Variant

#: as `tare.runtimes.engine_spec.capture` returns it, of very few features
ENGINE: dict[str, Any] = {
    "oci": {
        "ociVersion": "1.0.2",
        "process": {"capabilities": {"bounding": ["CAP_KILL"], "effective": [], "permitted": []}},
        "mounts": [],
        "linux": {"namespaces": ["mount", "pid"], "resources": {}},
    },
    "capabilities": ["CAP_CHOWN", "CAP_KILL"],
}
STACK = Stack(
    "hpc",
    host_python="/usr/bin/python3",
    image="sha256:abc",
    digest="sha256:def",
    rootfs=Path("/cache/rootfs/def"),
    engine_spec=ENGINE,
)
REQUEST = RunRequest(
    run_id="r1",
    study="quick",
    stack=STACK,
    output=Path("/results/scratch/r1"),
    data=Path("/results/data/mnist"),
    worker_wheel="w.whl",
    environment={"TARE_RUN_ID": "r1", "TARE_OWNER": "h:1:2", "OMP_NUM_THREADS": "2"},
    uid=1000,
    gid=1001,
    owner="h:1:2",
)

OUTSIDE = "/results/scratch/r1"
BIND_ROOT = {
    "kind": "bind",
    "source": "/cache/rootfs/def",
    "target": "/cache/rootfs/def",
    "read_only": True,
}
REST = (
    {"kind": "bind", "source": "/sys", "target": "/cache/rootfs/def/sys", "read_only": True},
    {"kind": "bind", "source": "/dev", "target": "/cache/rootfs/def/dev", "read_only": False},
    {"kind": "tmpfs", "target": "/cache/rootfs/def/tmp"},
    {"kind": "bind", "source": OUTSIDE, "target": "/cache/rootfs/def/tare", "read_only": False},
    {"kind": "bind", "source": "/results/data/mnist", "target": "/cache/rootfs/def/data", "read_only": True},
)
NEW_PROC = {"kind": "proc", "target": "/cache/rootfs/def/proc"}
BOUND_PROC = {"kind": "bind", "source": "/proc", "read_only": False, "target": "/cache/rootfs/def/proc"}
FILES = {"stdout": f"{OUTSIDE}/stdout.txt", "stderr": f"{OUTSIDE}/stderr.txt"}
USER = {"uid": 1000, "gid": 1001}


def environment(output: str) -> dict[str, str]:
    return {
        "HOME": output,
        "OMP_NUM_THREADS": "2",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": f"{output}/w.whl",
        "TARE_OWNER": "h:1:2",
        "TARE_RUN_ID": "r1",
        "TMPDIR": output,
    }


def container(**changes: Any) -> dict[str, Any]:
    variables = tuple(f"{name}={value}" for name, value in environment("/tare").items())
    return {
        **USER,
        "image": "sha256:abc",
        "entrypoint": (
            "/bin/sh",
            "-c",
            'exec /usr/bin/env -i "$@" >/tare/stdout.txt 2>/tare/stderr.txt',
            "tare",
        ),
        "command": (*variables, "/usr/bin/python3", "-m", "tare.worker", "/tare/request.json"),
        "user": "1000:1001",
        "labels": {"tare": "quick", "tare.run": "r1", "tare.owner": "h:1:2"},
        "mounts": (
            {"source": OUTSIDE, "target": "/tare", "read_only": False},
            {"source": "/results/data/mnist", "target": "/data", "read_only": True},
        ),
        "init": True,
        "read_only_root": False,
        "tmpfs": {},
        "security_opt": (),
        "cap_drop": (),
        "cap_add": (),
        "network_mode": None,
        "pid_mode": None,
        "ipc_mode": None,
        "uts_mode": None,
        "log_driver": None,
        "memory_bytes": None,
        "cpus": None,
        "cpuset": None,
        "shm_bytes": None,
        "volume": None,
        "bound_root": (),
        **changes,
    }


def crun(**changes: Any) -> dict[str, Any]:
    return {
        **USER,
        **FILES,
        "root": "/cache/rootfs/def",
        "overlay": True,
        "mounts": container()["mounts"],
        "own_group": True,
        "without": (),
        "cap_add": (),
        "cpus": None,
        "cpuset": None,
        "memory_bytes": None,
        "shm_bytes": None,
        "user_namespace": False,
        "oci": rungs.rung(ENGINE),
        **changes,
    }


CHROOT = {**USER, **FILES, "root": "/cache/rootfs/def"}
PURE_LABELS = {"tare": "quick", "tare.run": "r1", "tare.owner": "h:1:2", "tare.give_back": "1000:1001"}
HARDENED = {
    "read_only_root": True,
    "tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,mode=1777"},
    "security_opt": ("no-new-privileges",),
    "cap_drop": ("ALL",),
    "network_mode": "none",
}
EXPECTED: dict[str, tuple[str, dict[str, Any]]] = {
    "host": ("process", {**USER, **FILES}),
    "chroot": ("chroot", {**CHROOT, "mounts": (BIND_ROOT, NEW_PROC, *REST), "user_namespace": False}),
    "chroot-userns": ("chroot", {**CHROOT, "mounts": (BIND_ROOT, BOUND_PROC, *REST), "user_namespace": True}),
    "docker": ("container", container()),
    "docker-pure": ("container", container(init=None, user=None, labels=PURE_LABELS)),
    "docker-hardened": ("container", container(**HARDENED)),
    "crun": ("oci", crun()),
}


def test_the_table_has_the_runtimes_of_the_config() -> None:
    assert tuple(runtimes.RUNTIMES) == config.RUNTIMES == tuple(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_specification(name: str) -> None:
    spec = runtimes.get(name).specify(REQUEST)
    kind, options = EXPECTED[name]
    output = OUTSIDE if name == "host" else "/tare"
    assert (spec.runtime, spec.kind) == (name, kind)
    assert spec.argv == ("/usr/bin/python3", "-m", "tare.worker", f"{output}/request.json")
    assert spec.environment == environment(output)
    assert (spec.cwd, spec.output) == (output, output)
    assert spec.data == ("/results/data/mnist" if name == "host" else "/data")
    assert spec.options == options


@pytest.mark.parametrize("name", EXPECTED)
def test_specification_without_data_has_no_data_mount(name: str) -> None:
    spec = runtimes.get(name).specify(replace(REQUEST, data=None))
    assert spec.data is None
    assert "/results/data/mnist" not in str(spec)


@pytest.mark.parametrize("name", EXPECTED)
def test_specifying_is_pure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = runtimes.get(name).specify(REQUEST)
    monkeypatch.setenv("PATH", "/elsewhere")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert runtimes.get(name).specify(REQUEST) == first


def test_environment_may_not_set_what_belongs_to_the_runtime() -> None:
    request = replace(REQUEST, environment={"HOME": "/root", "PATH": "/x"})
    with pytest.raises(ValueError, match="HOME, PATH is set by the runtime; remove it there"):
        launch.environment(request, "/tare")


def test_limits_are_options_of_a_variant() -> None:
    spec = Container("docker-limited", memory_bytes=1 << 30, cpus=1.5).specify(REQUEST)
    assert spec.options == container(memory_bytes=1 << 30, cpus=1.5)


def variant(**entries: Any) -> Variant:
    return Variant.model_validate({"base": "docker", "label": "a label", **entries})


BOUND = tuple(
    {"source": f"/cache/rootfs/def{folder}", "target": folder, "read_only": True}
    for folder in ("/usr/bin", "/usr/lib", "/usr/local")
)
#: variant of docker → what its launch has that docker's has not
DOCKER_VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"without": ["seccomp"]}, {"security_opt": ("seccomp=unconfined",)}),
    ({"without": ["apparmor"]}, {"security_opt": ("apparmor=unconfined",)}),
    (
        {"without": ["apparmor", "seccomp"]},
        {"security_opt": ("apparmor=unconfined", "seccomp=unconfined")},
    ),
    ({"without": ["network"]}, {"network_mode": "host"}),
    ({"network": "none"}, {"network_mode": "none"}),
    ({"without": ["pid"]}, {"pid_mode": "host"}),
    ({"without": ["ipc"]}, {"ipc_mode": "host", "uts_mode": "host"}),
    ({"without": ["capabilities"]}, {"cap_add": ("CHOWN", "SYS_ADMIN")}),
    ({"without": ["init"]}, {"init": False}),
    ({"without": ["overlay"]}, {"bound_root": BOUND}),
    ({"cap_add": ["SYS_PTRACE"]}, {"cap_add": ("SYS_PTRACE",)}),
    ({"log_driver": "none"}, {"log_driver": "none"}),
    ({"cpus": 1.5, "cpuset": "0,2"}, {"cpus": 1.5, "cpuset": "0,2"}),
    ({"cpus": "all", "cpuset": "all"}, {"cpus": 5.0, "cpuset": "0-3,8"}),
    ({"memory_bytes": 1 << 30, "shm_bytes": 1 << 20}, {"memory_bytes": 1 << 30, "shm_bytes": 1 << 20}),
]


@pytest.mark.parametrize(("entries", "changes"), DOCKER_VARIANTS)
def test_variant_of_docker_changes_exactly_what_it_names(
    entries: dict[str, Any], changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_variant, "online", lambda: "0-3,8")
    monkeypatch.setattr(from_variant, "own_capabilities", lambda: ["CAP_BPF", "CAP_CHOWN", "CAP_SYS_ADMIN"])
    spec = runtimes.get("mine", {"mine": variant(**entries)}).specify(REQUEST)
    plain = runtimes.get("docker").specify(REQUEST)
    network = {"host": "loopback", "none": "none"}.get(changes.get("network_mode", ""), "interface")
    assert spec.options == container(**changes)
    assert spec == replace(plain, runtime="mine", network=network, options=spec.options)


@pytest.mark.parametrize(
    ("entries", "changes"),
    [
        ({}, {}),
        ({"without": ["overlay", "cgroup"]}, {"overlay": False, "own_group": False}),
        ({"cpus": "all", "user_namespace": True}, {"cpus": 5.0, "user_namespace": True}),
    ],
)
def test_variant_of_crun_is_a_rung(
    entries: dict[str, Any], changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_variant, "online", lambda: "0-3,8")
    spec = runtimes.get("mine", {"mine": variant(base="crun", **entries)}).specify(REQUEST)
    without = tuple(entries.get("without", ()))
    options = rungs.Options(cpus=changes.get("cpus"), user_namespace=changes.get("user_namespace", False))
    assert spec.options == crun(without=without, oci=rungs.rung(ENGINE, without, options), **changes)


@pytest.mark.parametrize(
    ("without", "location", "files", "network"),
    [
        ((), "bind", "/tare/files", "none"),
        ((), "layer", "/var/tmp", "none"),
        ((), "volume", "/tare/files", "none"),
        (("overlay",), "layer", "/tare/files", "none"),
        (("network",), "bind", "/tare/files", "loopback"),
    ],
)
def test_files_and_network_of_a_rung(
    without: tuple[str, ...], location: str, files: str, network: str
) -> None:
    runtime = runtimes.get("mine", {"mine": variant(base="crun", without=without)})
    spec = runtime.specify(replace(REQUEST, location=location))
    assert (spec.files, spec.network) == (files, network)


def test_all_capabilities_of_a_root_that_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_variant, "own_capabilities", lambda: list(CAPABILITIES))
    assert from_variant.all_capabilities() == ("ALL",)


def test_variant_of_host_is_a_host_of_another_name() -> None:
    spec = runtimes.get("mine", {"mine": variant(base="host")}).specify(REQUEST)
    assert spec == replace(runtimes.get("host").specify(REQUEST), runtime="mine")


@pytest.mark.parametrize(("text", "numbers"), [("0", [0]), ("0-3,8", [0, 1, 2, 3, 8]), ("2,4-5", [2, 4, 5])])
def test_list_of_cpus(text: str, numbers: list[int]) -> None:
    assert from_variant.expand(text) == numbers


def test_list_of_cpus_that_is_none() -> None:
    with pytest.raises(ValueError, match="'0-' is no list of CPUs such as 0-3,8"):
        from_variant.expand("0-")


def test_online_cpus_are_the_kernels_text(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0-1\n")
    assert from_variant.online(tmp_path / "online") == "0-1"


def test_unknown_runtime_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean 'docker'"):
        runtimes.get("dokcer")


@pytest.mark.parametrize(
    ("name", "form"),
    [("host", "host"), ("docker", "image"), ("docker-pure", "image"), ("docker-hardened", "image")],
)
def test_form_that_was_not_built_is_unavailable_with_its_reason(name: str, form: str) -> None:
    stack = Stack("hpc", missing={form: "no hpcc here; apt-get install hpcc; then again"})
    unavailable = runtimes.get(name).unavailable(stack)
    assert unavailable is not None
    assert (unavailable.reason, unavailable.remedy) == ("no hpcc here", "apt-get install hpcc; then again")
    bare = runtimes.get(name).unavailable(Stack("hpc"))
    assert str(bare) == f"the {form} of stack hpc was not built; build it with `make study`"


def test_host_interpreter_that_is_gone_is_unavailable() -> None:
    text = str(runtimes.get("host").unavailable(replace(STACK, host_python="/nowhere/python3")))
    assert "/nowhere/python3 of stack hpc is gone" in text
    assert "results/software/hpc/venv.json" in text


def test_chroot_without_root_names_the_other_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    text = str(runtimes.get("chroot").unavailable(STACK))
    assert text.startswith("chroot needs root; ")
    assert "chroot-userns" in text


def test_root_filesystem_without_its_mount_points_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("tare.runtimes.chroot._try_mount", lambda *_: None)
    for name in ("proc", "sys", "dev", "tmp"):
        (tmp_path / name).mkdir()
    text = str(runtimes.get("chroot").unavailable(replace(STACK, rootfs=tmp_path)))
    assert "lacks /tare, /data" in text
    for name in ("tare", "data"):
        (tmp_path / name).mkdir()
    assert runtimes.get("chroot").unavailable(replace(STACK, rootfs=tmp_path)) is None


def test_engine_that_is_absent_or_denied_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    text = str(runtimes.get("docker").unavailable(STACK))
    assert f"no engine answers at unix://{tmp_path}/none.sock" in text
    monkeypatch.setenv("DOCKER_HOST", "tcp://far.example:2375")
    assert "not an engine of this machine" in str(runtimes.get("docker").unavailable(STACK))


@pytest.fixture
def as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack whose root filesystem is complete, a root that may mount, an engine that has the image, and crun."""
    for name in ("proc", "sys", "dev", "tmp", "tare", "data", "usr/bin", "usr/lib", "usr/local"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("tare.runtimes.chroot._try_mount", lambda *_: None)
    monkeypatch.setattr("tare.runtimes.engine.unavailable", lambda: None)
    monkeypatch.setattr("tare.runtimes.engine.image_missing", lambda *_: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    return replace(STACK, rootfs=tmp_path)


def test_crun_with_all_it_needs_is_available(as_root: Stack) -> None:
    assert runtimes.get("crun").unavailable(as_root) is None


def test_crun_without_root(as_root: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert str(runtimes.get("crun").unavailable(as_root)) == (
        "crun needs root; run as root, or leave the runtimes made from crun out of the config"
    )


def test_crun_that_is_not_installed(as_root: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert str(runtimes.get("crun").unavailable(as_root)) == "crun is not installed; apt-get install crun"


def test_crun_without_what_the_engine_would_say(as_root: Stack) -> None:
    missing = {"engine_spec": "the OCI specification is not readable; run as root of the machine"}
    found = runtimes.get("crun").unavailable(replace(as_root, engine_spec=None, missing=missing))
    assert found == Unavailable("the OCI specification is not readable", "run as root of the machine")


def test_engine_that_left_crun_alone_is_lost(as_root: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Unavailable("no engine answers", "start it")
    monkeypatch.setattr("tare.runtimes.engine.unavailable", lambda: gone)
    assert runtimes.get("crun").unavailable(as_root) == replace(gone, lost=True)


def test_root_filesystem_with_programs_outside_usr_cannot_replace_the_overlay(as_root: Stack) -> None:
    bound = Container("mine", bound_root=True)
    assert bound.unavailable(as_root) is None
    assert as_root.rootfs is not None
    (as_root.rootfs / "bin").symlink_to("usr/bin")
    assert bound.unavailable(as_root) is None
    (as_root.rootfs / "lib").mkdir()
    assert "has programs in /lib too" in str(bound.unavailable(as_root))
    assert "rootfs of stack hpc was not built" in str(bound.unavailable(replace(as_root, rootfs=None)))
