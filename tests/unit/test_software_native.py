"""Native programs: what is compiled and how, the same bytes at any place, kept by content, refused with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tare.software import native, status, workflow, zig
from tare.software.errors import Skipped, SoftwareError
from tare.software.locks import StackLock
from tare.software.zig import Compiler

LOCK = StackLock(Path(__file__).resolve().parents[2] / "envs", native.LOCK)


@dataclass(frozen=True)
class Recorder(Compiler):
    """A compiler that writes down what it is asked and makes a file of it."""

    asked: list[list[str]] = field(default_factory=list)

    def run(self, arguments: Sequence[str], folder: Path) -> None:
        self.asked.append([*arguments])
        for name in arguments[:-1]:
            assert not name.endswith(".c") or (folder / name).is_file()
        (folder / arguments[-1]).write_text(" ".join(arguments))


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    made = Recorder(Path("/zig"), "9.9", "ab" * 32, tmp_path / "libc")
    monkeypatch.setattr(native, "ensure_compiler", lambda _: made)
    return made


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A tree of two programs."""
    folder = tmp_path / "native"
    for name in (
        "common/a.c",
        "common/a.h",
        "tool/main.c",
        "tool/kernels.c",
        "tool/notes.txt",
        "other/main.c",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_programs_are_the_folders_beside_common(sources: Path) -> None:
    assert native.programs(sources) == ["other", "tool"]
    names = [str(path.relative_to(sources)) for path in native.sources("tool", sources)]
    assert names == ["common/a.c", "common/a.h", "tool/kernels.c", "tool/main.c"]


def test_what_the_compiler_is_asked(recorder: Recorder, sources: Path) -> None:
    made = native.ensure_program("tool", LOCK, sources, "x86_64")
    compiled = [words[-3:] for words in recorder.asked[:-1]]
    assert compiled == [
        ["common/a.c", "-o", "common-a.o"],
        ["tool/kernels.c", "-o", "tool-kernels-base.o"],
        ["tool/kernels.c", "-o", "tool-kernels-v3.o"],
        ["tool/kernels.c", "-o", "tool-kernels-v4.o"],
        ["tool/main.c", "-o", "tool-main.o"],
    ]
    for words in recorder.asked:
        assert words[:3] == ["cc", "-target", "x86_64-linux-musl"]
    for words in recorder.asked[:-1]:
        assert set(native.FLAGS) <= set(words)
    marks = [[word for word in words if word.startswith(("-march", "-DISA"))] for words in recorder.asked]
    assert marks == [
        ["-march=x86_64"],
        *(
            [f"-march=x86_64{level}", f"-DISA={isa}"]
            for level, isa in (("", "base"), ("_v3", "v3"), ("_v4", "v4"))
        ),
        ["-march=x86_64"],
        [],
    ]
    assert {"-static", "-s", "made/tool"} <= set(recorder.asked[-1])
    assert (made.compiler, made.target) == ("zig 9.9", "x86_64-linux-musl")
    assert made.path.stat().st_mode & 0o777 == 0o755


def test_another_architecture_has_one_instruction_set(recorder: Recorder, sources: Path) -> None:
    assert native.ensure_program("tool", LOCK, sources, "aarch64").target == "aarch64-linux-musl"
    kernels = [words for words in recorder.asked if "tool/kernels.c" in words]
    assert len(kernels) == 1
    assert "-DISA=base" in kernels[0]


def test_a_kept_program_is_not_compiled_again(recorder: Recorder, sources: Path, tmp_path: Path) -> None:
    first = native.ensure_program("tool", LOCK, sources, "x86_64")
    count = len(recorder.asked)
    shutil.copytree(sources, tmp_path / "another/checkout")
    assert native.ensure_program("tool", LOCK, tmp_path / "another/checkout", "x86_64") == first
    assert len(recorder.asked) == count
    first.path.write_text("damaged")
    assert native.ensure_program("tool", LOCK, sources, "x86_64") == first
    assert len(recorder.asked) == 2 * count


def test_the_key_follows_everything_that_matters(recorder: Recorder, sources: Path) -> None:
    def key(machine: str = "x86_64", compiler: Compiler = recorder) -> str:
        return native.key(native.sources("tool", sources), sources, compiler, machine)

    before = key()
    (sources / "other/main.c").write_text("changed")
    (sources / "tool/notes.txt").write_text("changed")
    assert key() == before, "files that are no part of the program"
    assert key(machine="aarch64") != before
    assert key(compiler=replace(recorder, sha256="cd" * 32)) != before
    (sources / "common/a.h").write_text("changed")
    assert key() != before


def test_refusals(recorder: Recorder, sources: Path) -> None:
    with pytest.raises(SoftwareError, match=r"toool: no native program; allowed: other, tool"):
        native.ensure_program("toool", LOCK, sources)
    with pytest.raises(Skipped, match=r"made for x86_64 and aarch64; this machine is riscv64"):
        native.ensure_program("tool", LOCK, sources, "riscv64")
    assert recorder.asked == []


def test_the_compilers_environment_is_built_from_nothing(tmp_path: Path) -> None:
    assert zig.environment(Path("/w"), Path("/c")) == {
        "LC_ALL": "C",
        "HOME": "/w",
        "TMPDIR": "/w",
        "ZIG_LOCAL_CACHE_DIR": "/w/.zig-cache",
        "ZIG_GLOBAL_CACHE_DIR": "/c",
        "SOURCE_DATE_EPOCH": "0",
    }
    program = tmp_path / "zig"
    program.write_text("#!/bin/sh\n/usr/bin/env > said\n")
    program.chmod(0o755)
    Compiler(program, "1", "a", Path("/c")).run(["cc"], tmp_path)
    names = {line.split("=")[0] for line in (tmp_path / "said").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == set(zig.environment(tmp_path, Path("/c")))


def test_a_compilers_complaint_is_the_reason(tmp_path: Path) -> None:
    program = tmp_path / "zig"
    program.write_text("#!/bin/sh\necho 'main.c:3: error: unknown type' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(SoftwareError, match=r"zig cc failed:\nmain.c:3: error: unknown type"):
        Compiler(program, "1", "a", tmp_path).run(["cc", "x.c"], tmp_path)


def test_a_wheel_for_another_machine_is_a_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / ("0" * 64) / "ziglang-1-py3-none-manylinux_2_12_x86_64.whl"
    monkeypatch.setattr(zig, "fetch_wheels", lambda _: [wheel])
    monkeypatch.setattr(zig.platform, "machine", lambda: "aarch64")
    with pytest.raises(Skipped, match=r"x86_64.whl does not run on a machine of type aarch64"):
        zig.ensure_compiler(LOCK)


def test_a_lock_without_the_compiler_is_refused(tmp_path: Path) -> None:
    (tmp_path / "native.lock.txt").write_text("# python 3.11 manylinux_2_28_x86_64\n")
    with pytest.raises(SoftwareError, match=r"must hold ziglang; put it into envs/native.in, `make relock`"):
        zig.ensure_compiler(StackLock(tmp_path, "native"))


def statuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]) -> dict[str, Any]:
    monkeypatch.setattr(status, "ensure_program", make)
    return status.native_status("tool", LOCK, tmp_path / "out/tool", tmp_path / "log/tool.log")


@pytest.mark.usefixtures("recorder")
def test_the_status_of_a_program(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = native.ensure_program("tool", LOCK, sources, "x86_64")
    found = statuses(tmp_path, monkeypatch, lambda *_: made)
    binary = tmp_path / "out/tool"
    assert found == {
        "program": "tool",
        "status": "ok",
        "reasons": [],
        "path": str(binary),
        "sha256": made.sha256,
        "compiler": "zig 9.9",
        "compiler_sha256": "ab" * 32,
        "target": "x86_64-linux-musl",
        "flags": [*native.FLAGS, *native.LINK_FLAGS],
    }
    assert binary.read_bytes() == made.path.read_bytes()
    assert binary.stat().st_mode & 0o777 == 0o755
    assert not binary.samefile(made.path), "what happens to the output must not reach the cache"
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("fault", "expected"), [(Skipped("this machine"), "skipped"), (SoftwareError("x.c:1: error"), "failed")]
)
def test_the_status_without_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, expected: str
) -> None:
    def make(*_: object) -> None:
        raise fault

    found = statuses(tmp_path, monkeypatch, make)
    assert (found["status"], found["reasons"], found["path"]) == (expected, [str(fault)], None)
    assert (tmp_path / "out/tool").read_bytes() == b"", "the rule's output exists in any case"


def test_what_the_rule_depends_on(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    found = workflow.get_native_sources("stream")
    assert {"src/tare/native/common/json.c", "src/tare/native/stream/kernels.c"} <= set(found)
    assert "stream" in workflow.get_programs()


@pytest.mark.needs("native")
def test_two_places_give_the_same_bytes(
    repository: Path, tmp_path: Path, native_program: Callable[[str], Path]
) -> None:
    """The second one elsewhere, in a cache without a single program, so that it is really compiled."""
    first = native_program("stream")
    compiler = zig.ensure_compiler(LOCK)
    folder = tmp_path / "elsewhere/with a blank"
    shutil.copytree(repository / native.NATIVE, folder)
    home = tmp_path / "home"
    native._make("stream", native.sources("stream", folder), folder, compiler, "x86_64", home)
    content = (home / "stream").read_bytes()
    assert content == first.read_bytes()
    assert content[:4] == b"\x7fELF"
    for path in (str(repository), str(tmp_path), "/tmp/", "/var/cache"):
        assert path.encode() not in content, "no path of the build gets into a program"


@pytest.mark.needs("native")
def test_a_program_that_does_not_compile(tmp_path: Path, repository: Path) -> None:
    folder = tmp_path / "native"
    shutil.copytree(repository / native.NATIVE / "common", folder / "common")
    (folder / "bad").mkdir()
    (folder / "bad/main.c").write_text("int main(void)\n{\n    int unused;\n    return 0;\n}\n")
    with pytest.raises(SoftwareError, match=r"bad/main.c:3:9: error: unused variable"):
        native.ensure_program("bad", LOCK, folder)


@pytest.mark.slow
@pytest.mark.needs("native")
def test_every_program_is_made_for_every_machine(repository: Path) -> None:
    """The C library is compiled once for each kind of machine: half a minute."""
    folder = repository / native.NATIVE
    for machine, code in (("x86_64", 62), ("aarch64", 183)):
        for program in native.programs(folder):
            content = native.ensure_program(program, LOCK, folder, machine).path.read_bytes()
            assert int.from_bytes(content[18:20], "little") == code, "e_machine of the ELF header"
