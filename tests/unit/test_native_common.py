"""What the native programs share: arguments, result, threads, instruction set; seen through a program of the tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.software import native
from tare.software.locks import StackLock

#: flags of /proc/cpuinfo that make a level, by the kernel's names (psABI, micro-architecture levels)
_V3 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V3 = frozenset(_V3.split())
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.fixture(scope="module")
def probe(
    repository: Path, require: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    require("native")
    folder = tmp_path_factory.mktemp("sources")
    shutil.copytree(repository / native.NATIVE / "common", folder / "common")
    shutil.copytree(repository / "tests/data/native/probe", folder / "probe")
    program = native.ensure_program("probe", StackLock(repository / "envs", native.LOCK), folder).path

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        given = {"stdout": subprocess.PIPE, **options}
        return subprocess.run(
            [str(program), *arguments], stderr=subprocess.PIPE, text=True, check=False, timeout=60, **given
        )

    return run


Probe = Callable[..., subprocess.CompletedProcess[str]]


def said(probe: Probe, *arguments: str) -> dict[str, Any]:
    done = probe(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_result_is_one_object_of_json(probe: Probe) -> None:
    found = said(probe, "--number", "0.3", "--text", "x y")
    assert found["number"] == 0.3, "17 digits give the number back"
    assert found["escaped"] == 'q"\\\n\xc3'
    assert found["text"] == "x y"
    assert found["odd"] == [1 / 3, None, 1e300]
    assert found["objects"] == [{"least": -(2**63)}, {}]
    assert found["last"] == {"none": []}
    assert found["clock"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--thread", "1"],
            '"--thread" is no argument; allowed: --threads, --rounds, --pin, --number, --isa, --text',
        ),
        (["threads", "1"], '"threads" is no argument'),
        (["--threads"], "--threads: the value is missing"),
        (["--threads", "2x"], '--threads: "2x" is no whole number; allowed: 1 to 64'),
        (["--threads", ""], '--threads: "" is no whole number'),
        (["--threads", "0"], "--threads: 0 is out of range; allowed: 1 to 64"),
        (["--threads", "9" * 30], "is no whole number"),
        (["--number", "nan"], '--number: "nan" is no number; allowed: -1 to 5'),
        (["--number", "5.1"], "--number: 5.1 is out of range"),
        (["--isa", "v"], '--isa: "v" is not allowed; allowed: auto|base|v3|v4'),
        (["--isa", "base|v3"], "is not allowed"),
        (["--pin", "1", "--pin", "1"], "--pin is given twice; give it once"),
    ],
)
def test_wrong_arguments_end_with_usage(probe: Probe, arguments: list[str], message: str) -> None:
    done = probe(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_result_that_cannot_be_written_is_a_failure(probe: Probe) -> None:
    with Path("/dev/full").open("w") as full:
        done = probe(stdout=full)
    assert (done.returncode, done.stderr) == (1, "the result cannot be written to standard output\n")


def test_the_best_instruction_set_of_the_machine_is_chosen(probe: Probe) -> None:
    text = Path("/proc/cpuinfo").read_text()
    flags = set(match[1].split()) if (match := re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)) else set()
    best = "v4" if flags >= V4 else "v3" if flags >= V3 else "base"
    assert said(probe)["isa"] == best
    for isa in ("base", "v3", "v4")[: ("base", "v3", "v4").index(best) + 1]:
        found = said(probe, "--isa", isa)
        assert (found["isa"], found["doubled"]) == (isa, 42)
    if best != "v4":
        done = probe("--isa", "v4")
        assert (done.returncode, done.stderr) == (1, "--isa: this CPU or kernel has no v4; use --isa auto\n")


def test_each_thread_has_a_cpu_of_its_own(probe: Probe) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    assert said(probe, "--threads", str(min(len(cpus), 64)))["cpu"] == cpus[:64]
    assert said(probe, "--pin", "0")["cpu"] == [cpus[0] if len(cpus) == 1 else -1]


def test_more_pinned_threads_than_cpus_are_refused(probe: Probe) -> None:
    done = probe("--threads", "2", preexec_fn=lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "2 threads are asked for, 1 CPUs may be used; ask for fewer threads\n"


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_nobody_passes_the_barrier_before_all_have_come(probe: Probe, threads: int) -> None:
    """With more threads than CPUs too: who waits yields."""
    found = said(probe, "--threads", str(threads), "--pin", "0", "--rounds", "200")
    assert found["late"] == [0] * threads
