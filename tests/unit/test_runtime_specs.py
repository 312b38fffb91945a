"""Launch specifications as data: table-driven, nothing is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tare import config, runtimes
from tare.runtimes import launch
from tare.runtimes.base import RunRequest, Stack
from tare.runtimes.container import Container

STACK = Stack(
    "hpc",
    host_python="/usr/bin/python3",
    image="sha256:abc",
    digest="sha256:def",
    rootfs=Path("/cache/rootfs/def"),
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
        "network_mode": None,
        "memory_bytes": None,
        "cpus": None,
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
