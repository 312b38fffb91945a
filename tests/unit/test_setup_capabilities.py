"""Probes on machines of our making: what they say, and the remedy they name."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tare.setup import capabilities, engine
from tare.setup.capabilities import Capability
from tare.setup.environment import SetupError


@pytest.fixture(autouse=True)
def fresh() -> None:
    capabilities._detect.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def forget() -> object:
    yield
    capabilities._detect.cache_clear()


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_reason_of_a_skip() -> None:
    assert (
        str(Capability("userns", False, "forbidden", "allow them"))
        == "capability: userns: forbidden; allow them"
    )
    assert str(Capability("userns", True, "allowed")) == "capability: userns: allowed"


def test_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    found = capabilities.detect("engine")
    assert not found.ok
    assert found.why == f"no engine answers at unix://{tmp_path}/none (no such file or directory)"
    assert capabilities.detect("engine") is found, "tried once"


def test_root_and_chroot_as_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 1000)
    assert capabilities.detect("root").why == "effective user id is 1000"
    assert capabilities.detect("chroot").remedy == "run it as root, or use chroot-userns"
    assert not capabilities.detect("ordinary_user").ok


def test_a_refused_command_gives_its_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "unshare", "echo noise >&2; echo 'unshare: Operation not permitted' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 1000)
    found = capabilities.detect("userns")
    assert (found.ok, found.why) == (
        False,
        "user namespaces are forbidden (unshare: Operation not permitted)",
    )


def test_silent_failure_gives_the_status(tmp_path: Path) -> None:
    program(tmp_path, "silent", "exit 3")
    assert capabilities._succeeds([f"{tmp_path}/silent"]) == (False, f"{tmp_path}/silent ended with status 3")
    ok, complaint = capabilities._succeeds([f"{tmp_path}/absent"])
    assert not ok
    assert "No such file" in complaint


@pytest.mark.parametrize("tool", ["mmdebstrap", "chromium"])
def test_tools_are_found_on_the_path(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert capabilities.detect(tool).remedy == f"apt-get install {tool}"
    capabilities._detect.cache_clear()
    program(tmp_path, tool, "")
    assert capabilities.detect(tool) == Capability(tool, True, f"{tmp_path}/{tool}")


@pytest.mark.parametrize(
    ("subuid", "ok"),
    [
        ("ada:100000:65536\n", True),
        ("1000:100000:65536\n", True),
        ("adam:100000:65536\n", False),
        (None, False),
    ],
)
def test_subids(subuid: str | None, ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "newuidmap", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(capabilities.pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="ada"))
    if subuid is not None:
        (tmp_path / "subuid").write_text(subuid)
    monkeypatch.setattr(capabilities, "SUBUID", tmp_path / "subuid")
    found = capabilities.detect("subids")
    assert found.ok is ok
    assert found.remedy == (
        "" if ok else "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ada"
    )


def test_subids_are_there_before_the_program_that_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set-up must not ask for ids that a user has because newuidmap is still to be installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "subuid").write_text("ada:100000:65536\n")
    monkeypatch.setattr(capabilities, "SUBUID", tmp_path / "subuid")
    assert capabilities.has_subids("ada")
    assert not capabilities.detect("subids").ok


def test_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 4_000_000_001)
    assert capabilities.user_name() == "4000000001"


@pytest.mark.parametrize(("status", "waited"), [(0, 1), (1, 0)])
def test_systemd_starts_the_engine(status: int, waited: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(
        engine.subprocess, "run", lambda argv: subprocess.CompletedProcess(calls.append(argv), status)
    )
    monkeypatch.setattr(engine, "_wait", lambda *_: calls.append("waited"))
    if status:
        with pytest.raises(SetupError, match="journalctl -u docker"):
            engine.start_by_systemd(print)
    else:
        engine.start_by_systemd(print)
    assert calls == [["systemctl", "start", "docker"], *["waited"] * waited]


NVIDIA_SMI = """echo 'NVIDIA H200, 550.127.08'; echo 'Tesla T4, 550.127.08'"""


@pytest.mark.parametrize(
    ("script", "ok", "why"),
    [
        (NVIDIA_SMI, True, "NVIDIA H200 (driver 550.127.08), Tesla T4 (driver 550.127.08)"),
        (None, False, "no NVIDIA GPU here: nvidia-smi is not installed"),
        ("true", False, "no NVIDIA GPU here: nvidia-smi lists none"),
        ("echo No devices were found; exit 6", False, "ended with status 6: No devices were found"),
    ],
)
def test_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, ok: bool, why: str) -> None:
    if script:
        program(tmp_path, "nvidia-smi", script)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = capabilities.detect("gpu")
    assert (found.ok, bool(found.remedy)) == (ok, not ok)
    assert why in found.why


def test_gpus_in_containers_need_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(capabilities, "GPU_SPECIFICATIONS", (str(tmp_path / "nvidia.yaml"),))

    def found() -> Capability:
        capabilities._detect.cache_clear()
        return capabilities.detect("gpu_containers")

    assert "no NVIDIA GPU here" in found().why
    program(tmp_path, "nvidia-smi", NVIDIA_SMI)
    assert found().why == "the NVIDIA container toolkit is absent: no nvidia-container-runtime-hook"
    assert found().remedy.startswith("install nvidia-container-toolkit")
    (tmp_path / "nvidia.yaml").touch()
    assert found() == Capability("gpu_containers", True, str(tmp_path / "nvidia.yaml"))
    program(tmp_path, "nvidia-container-runtime-hook", "true")
    assert found().why == str(tmp_path / "nvidia-container-runtime-hook")


def test_the_compiler_is_cached_or_found_by_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities.os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    monkeypatch.setenv("TARE_CACHE", str(tmp_path))
    program(
        tmp_path, "python", 'echo "$@" > "$(dirname $0)/asked"; echo \'ERROR: no such wheel\' >&2; exit 1'
    )
    monkeypatch.setattr(capabilities.sys, "executable", str(tmp_path / "python"))
    found = capabilities.detect("native")
    assert (found.ok, found.why) == (False, "pip does not find the wheel ziglang (ERROR: no such wheel)")
    assert (tmp_path / "asked").read_text() == "-m pip index versions --quiet ziglang\n"
    lock = Path(__file__).resolve().parents[2] / "envs/native.lock.txt"
    sha256 = lock.read_text().partition("--hash=sha256:")[2][:64]
    (tmp_path / "wheels" / sha256).mkdir(parents=True)
    (tmp_path / "wheels" / sha256 / "ziglang-1-py3-none-any.whl").touch()
    capabilities._detect.cache_clear()
    assert capabilities.detect("native").why == "the C compiler's wheel is in the cache"


def test_the_compiler_is_locked_for_one_kind_of_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities.os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    found = capabilities.detect("native")
    assert (found.ok, found.why) == (False, "the C compiler is locked for x86_64, this machine is riscv64")
    assert found.remedy == "name its platform in envs/native.in, then make relock"
