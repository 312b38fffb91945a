"""A whole block with the real worker in the real runtimes, on this machine's own Python: seconds, no build.

Cases 9, 12, 14, 15, 16, 46 and 50 of the field, seen in what the worker itself recorded.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from own_python import import_image, keep_archive, own_stack
from test_engine_gone import Relay

from tare import parity, records, runtimes
from tare.config import Disturbance
from tare.ground import BlockRequest
from tare.measure import measure_block
from tare.paths import rootfs_dir
from tare.runtimes import engine
from tare.runtimes.base import LABEL, LaunchSpec, Running, RunRequest
from tare.runtimes.container import ENTRYPOINT, Container
from tare.setup import engine_probe

pytestmark = [pytest.mark.engine, pytest.mark.needs("chroot")]

DIGEST, OTHER_DIGEST = "sha256:" + "ab" * 32, "sha256:" + "cd" * 32
ARMS = ("host", "chroot", "docker", "docker-hardened")
THP = Path("/sys/kernel/mm/transparent_hugepage")
SMT = Path("/sys/devices/system/cpu/smt/active")

Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A stack that is this machine's Python, and how a block of the empty workload is measured on it."""

    folder: Path
    cache: Path
    request: BlockRequest

    def measure(self, *names: str, folder: str = "quick") -> list[Row]:
        """Measure one block and return its rows, fingerprints parsed."""
        block = self.folder / folder / "blocks/startup/1.parquet"
        control = names[0]
        measure_block(dataclasses.replace(self.request, runtimes=names, control=control), block)
        rows: list[Row] = records.read(block, records.BLOCK).to_pylist()
        for row in rows:
            assert (row["status"], row["reasons"]) == ("ok", []), row["runtime"]
            row["fingerprint"] = json.loads(row["fingerprint"])
        return rows


@pytest.fixture(scope="module")
def bench(tiny_root: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("block")
    with own_stack(folder, tiny_root, DIGEST, repository) as blank:
        asked = {"study": "test-block", "cell": "startup", "workload": "startup"}
        request = dataclasses.replace(blank, runtimes=ARMS, control="chroot", **asked)
        yield Bench(folder, folder / "cache", request)


@pytest.fixture(scope="module")
def rows(bench: Bench) -> dict[str, Row]:
    """One row of each runtime."""
    return {row["runtime"]: row for row in bench.measure(*ARMS)}


def own_status(name: str) -> str | None:
    found = re.search(rf"^{name}:\s*(.*)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize("arm", ARMS)
def test_case_9_seccomp_and_speculation_are_recorded_in_every_arm(rows: dict[str, Row], arm: str) -> None:
    status = rows[arm]["fingerprint"]["process"]["status"]
    filtered = any("seccomp" in option for option in engine.facts()["security_options"])
    inside = "2" if filtered and arm.startswith("docker") else own_status("Seccomp")
    assert status["Seccomp"] == inside
    for name in ("Speculation_Store_Bypass", "SpeculationIndirectBranch"):
        # What this kernel prints, the worker recorded; which value it is inside is the kernel's affair.
        assert (status[name] is None) == (own_status(name) is None), name
        if not arm.startswith("docker"):
            assert status[name] == own_status(name)
    assert status["NoNewPrivs"] == ("1" if arm == "docker-hardened" else own_status("NoNewPrivs"))
    if arm == "docker-hardened":
        assert int(status["CapEff"], 16) == 0


def test_case_9_what_differs_is_told_as_isolation_and_is_no_fault(rows: dict[str, Row]) -> None:
    sides = [rows[arm]["fingerprint"] for arm in ("chroot", "docker")]
    found = parity.compare(*sides, "chroot", "docker")
    assert (found.status, found.fields) == ("same", ())
    differs = sides[0]["process"]["status"]["Seccomp"] != sides[1]["process"]["status"]["Seccomp"]
    assert ("process.status.Seccomp" in found.isolation) == differs


def test_case_12_huge_pages_are_recorded_for_the_node_and_are_the_same_in_every_arm(
    rows: dict[str, Row],
) -> None:
    def chosen(name: str) -> str | None:
        path = THP / name
        return re.findall(r"\[(\S+)\]", path.read_text())[0] if path.exists() else None

    for row in rows.values():
        node, pages = row["fingerprint"]["node"], row["fingerprint"]["process"]["huge_pages"]
        assert (node["thp_enabled"], node["thp_defrag"]) == (chosen("enabled"), chosen("defrag"))
        assert (pages["enabled"], pages["defrag"]) == (chosen("enabled"), chosen("defrag"))
        assert isinstance(pages["free"], int)


def test_case_15_smt_is_recorded_and_all_arms_have_the_same_cpus(rows: dict[str, Row]) -> None:
    here = sorted(os.sched_getaffinity(0))
    for row in rows.values():
        process = row["fingerprint"]["process"]
        assert (process["affinity"], process["effective_cpus"]) == (here, len(here))
        assert process["environment"]["OMP_NUM_THREADS"] == str(len(here))
        node = row["fingerprint"]["node"]
        assert isinstance(node["smt"], bool)
        if SMT.exists() and SMT.read_text().strip() == "1":
            assert node["smt"] is True


@pytest.mark.needs("two_cpus")
def test_case_15_arms_on_other_cpus_are_not_comparable(bench: Bench) -> None:
    """The engine does not inherit this process's CPU set: the arms would run on different cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        rows = bench.measure("host", "chroot", "docker", folder="pinned")
    finally:
        os.sched_setaffinity(0, before)
    found = {row["runtime"]: row["fingerprint"] for row in rows}
    for name in found:
        assert found[name]["process"]["environment"]["OMP_NUM_THREADS"] == "1"
    assert found["host"]["process"]["affinity"] == found["chroot"]["process"]["affinity"] == [min(before)]
    assert parity.compare(found["host"], found["chroot"], "host", "chroot").status != "different"
    verdict = parity.compare(found["chroot"], found["docker"], "chroot", "docker")
    assert (verdict.status, verdict.fields) == ("different", ("process.affinity", "process.effective_cpus"))


@pytest.mark.needs("two_cpus")
def test_case_16_a_quota_is_seen_inside_and_decides_parity(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runtimes.RUNTIMES, "docker-one-cpu", Container("docker-one-cpu", cpus=1.0))
    found = {
        row["runtime"]: row["fingerprint"]
        for row in bench.measure("docker", "docker-one-cpu", folder="quota")
    }
    limited = found["docker-one-cpu"]["process"]
    assert (limited["quota_cpus"], limited["effective_cpus"]) == (1.0, 1)
    assert limited["affinity"] == found["docker"]["process"]["affinity"]
    assert found["docker"]["process"]["quota_cpus"] is None
    verdict = parity.compare(found["docker"], found["docker-one-cpu"], "docker", "docker-one-cpu")
    # The quota is the treatment of that runtime; fewer CPUs to work with are another machine.
    assert (verdict.status, verdict.fields) == ("different", ("process.effective_cpus",))


def test_case_1_the_very_same_files_are_the_same_software_also_on_the_host(rows: dict[str, Row]) -> None:
    host, docker = (rows[arm]["fingerprint"] for arm in ("host", "docker"))
    assert len(docker["libraries"]) > 1
    assert None not in docker["libraries"].values()
    found = parity.compare(host, docker, "host", "docker")
    assert (found.status, found.fields) == ("same", ())


def test_case_1_one_library_of_another_build_is_different_software_and_is_named(
    bench: Bench, rows: dict[str, Row]
) -> None:
    """The same names, versions and results: only the bits of one library that the worker loads are others."""
    library = next(
        path for path in rows["docker"]["fingerprint"]["libraries"] if "/libz." in path or "/libm." in path
    )
    root = bench.folder / "rebuilt/root"
    shutil.copytree(rootfs_dir(DIGEST), root, symlinks=True)
    with (root / library.lstrip("/")).open("ab") as file:
        file.write(b"\0")  # after the end of what the loader reads
    keep_archive(root, OTHER_DIGEST)
    image = import_image(root)
    status = {"status": "ok", "reasons": [], "image_id": image, "digest": OTHER_DIGEST, "lock_sha256": "l"}
    (bench.folder / "other.json").write_text(json.dumps(status))
    request = dataclasses.replace(bench.request, image=bench.folder / "other.json")
    try:
        rebuilt = dataclasses.replace(bench, request=request).measure("docker", folder="rebuilt")[0][
            "fingerprint"
        ]
    finally:
        engine.api().remove_image(image, force=True)
    inside = parity.compare(rows["chroot"]["fingerprint"], rebuilt, "chroot", "docker")
    assert (inside.status, inside.fields) == ("different", ("launch.image_digest", f"libraries.{library}"))
    across = parity.compare(rows["host"]["fingerprint"], rebuilt, "host", "docker")
    assert (across.status, across.fields) == ("userland", (f"libraries.{library.rpartition('/')[2]}",))


# The SDK drops the socket of a connection that fails without closing it (docker.transport.unixconn).
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_that_goes_away_in_mid_block_hides_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = Relay(tmp_path / "relay.sock", engine_probe.address(os.environ).removeprefix("unix://"))
    engine.close()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/relay.sock")
    docker = runtimes.get("docker")

    class Cut:
        """The runtime whose engine hangs up as soon as its first run is started."""

        def __getattr__(self, name: str) -> Any:
            return getattr(docker, name)

        def start(self, spec: LaunchSpec) -> Running:
            running = docker.start(spec)
            relay.cut()
            return running

    monkeypatch.setitem(runtimes.RUNTIMES, "docker", Cut())
    block = bench.folder / "cut/blocks/startup/1.parquet"
    try:
        measure_block(
            dataclasses.replace(bench.request, runtimes=("docker", "host", "chroot"), control="docker"), block
        )
    finally:
        relay.cut()
        engine.close()
        monkeypatch.undo()
        monkeypatch.setenv("TARE_CACHE", str(bench.cache))
    rows = records.read(block, records.BLOCK).to_pylist()
    assert {row["runtime"]: row["status"] for row in rows} == {
        "docker": "failed",
        "host": "ok",
        "chroot": "ok",
    }
    reasons = ["; ".join(row["reasons"]) for row in rows if row["runtime"] == "docker"]
    assert len(reasons) == 2
    assert "the Docker engine went away or lost the run" in reasons[0]
    assert "no engine answers" in reasons[1]
    # The engine is back: what the run left is this process's own, and goes with the next of its kind.
    label = f"{LABEL}={bench.request.study}"
    for left in engine.api().containers(all=True, filters={"label": label}):
        engine.api().remove_container(left["Id"], force=True)
    gc.collect()  # here, where the warning is expected


@pytest.mark.parametrize("arm", ARMS)
def test_case_24_swap_and_major_faults_of_every_run_are_recorded(rows: dict[str, Row], arm: str) -> None:
    counted = rows[arm]["fingerprint"]["counters"]
    for name in ("swap_in_pages", "swap_out_pages", "major_faults"):
        assert counted[name] >= 0, name
    assert isinstance(rows[arm]["fingerprint"]["node"]["swap_bytes"], int)
    if arm.startswith("docker"):
        accounting = rows[arm]["fingerprint"]["launch"]["engine"]["engine"]["swap_limit"]
        assert accounting is bool(engine.api().info()["SwapLimit"])


@pytest.fixture
def endless(bench: Bench, tiny_root: Path, tmp_path: Path) -> Iterator[list[str]]:
    """The command that measures a block in docker whose worker never ends."""
    root = tmp_path / "endless/root"
    shutil.copytree(tiny_root, root, symlinks=True)
    (root / "usr/bin/python3").write_text("#!/bin/sh\nsleep 1000\n")
    image = import_image(root)
    status = {"status": "ok", "reasons": [], "image_id": image, "digest": DIGEST, "lock_sha256": "l"}
    (tmp_path / "image.json").write_text(json.dumps(status))
    given = dataclasses.asdict(dataclasses.replace(bench.request, runtimes=("docker",), control="docker"))
    keys = (
        "workload",
        "stack",
        "factors",
        "seed",
        "runtimes",
        "control",
        "threads",
        "max_attempts",
        "timeout_seconds",
    )
    measuring = {key: given[key] for key in keys} | {"disturbance": Disturbance().model_dump(), "harness": ""}
    measuring["variants"] = {}
    command = [sys.executable, str(Path(__file__).parents[2] / "scripts/measure_block.py")]
    options = {"study": tmp_path.name, "cell": "startup", "block": "1", "measuring": json.dumps(measuring)}
    for name, value in options.items():
        command += [f"--{name}", value]
    block = tmp_path / "results/s/blocks/startup/1.parquet"
    yield [
        *command,
        "--output",
        str(block),
        "--input",
        str(tmp_path / "image.json"),
        str(bench.request.wheel),
    ]
    engine.api().remove_image(image, force=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_case_43_an_interrupted_measurement_leaves_no_container_no_block_and_no_scratch(
    endless: list[str], tmp_path: Path, repository: Path, number: signal.Signals
) -> None:
    label = f"{LABEL}={tmp_path.name}"
    before = settings()
    soon = int(time.time()) + 60  # a measurement that never starts is a failure, not a hang
    started = engine.api().events(until=soon, decode=True, filters={"label": label, "event": "start"})
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(repository / "src"),
        "TARE_CACHE": str(tmp_path),
    }
    with subprocess.Popen(endless, env=environment, stderr=subprocess.PIPE, text=True) as measuring:
        try:
            next(started)
            started.close()
            measuring.send_signal(number)
            _, said = measuring.communicate(timeout=60)
        finally:
            measuring.kill()
    assert measuring.returncode == 128 + number, said
    assert engine.api().containers(all=True, filters={"label": label}) == []
    left = [path for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert left == []
    assert list((tmp_path / "results/s/scratch").iterdir()) == []
    assert settings() == before  # case 14: also when it could not end as it meant to


class LateContainer(Container):
    """A container that takes a second more before the worker's first instruction."""

    def specify(self, request: RunRequest) -> LaunchSpec:
        spec = super().specify(request)
        late = (*ENTRYPOINT[:2], f"sleep 1; {ENTRYPOINT[2]}", *ENTRYPOINT[3:])
        return dataclasses.replace(spec, options={**spec.options, "entrypoint": late})


def test_case_46_what_starting_takes_is_a_metric_of_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runtimes.RUNTIMES, "docker-late", LateContainer("docker-late"))
    found = {row["runtime"]: row for row in bench.measure("docker", "docker-late", folder="late")}
    late = found["docker-late"]
    assert late["seconds_to_start"] > 1
    # From its first instruction on, the clock is the worker's: the second is in nothing else.
    assert 0 < late["seconds_to_ready"] - late["seconds_to_start"] < 1
    samples = {sample["metric"]: (sample["phase"], sample["value"]) for sample in late["samples"]}
    assert samples["start_seconds"] == ("startup", late["seconds_to_start"])
    assert samples["total_seconds"] == ("startup", late["seconds_total"])
    split = samples["create_seconds"][1] + samples["first_instruction_seconds"][1]
    assert split == pytest.approx(samples["start_seconds"][1])
    assert samples["first_instruction_seconds"][1] > 1


@pytest.mark.parametrize("arm", ARMS)
def test_case_50_a_short_run_has_its_cpu_time_and_memory(rows: dict[str, Row], arm: str) -> None:
    row = rows[arm]
    assert 0 < row["cpu_seconds"] < row["seconds_total"] * 2
    assert row["max_rss_bytes"] > 1 << 20
    assert row["seconds_total"] > row["seconds_to_ready"] > row["seconds_to_start"] > 0


SETTINGS = (
    "/proc/sys/vm/*",
    "/proc/sys/kernel/*",
    "/proc/sys/net/ipv4/*",
    "/proc/swaps",
    "/sys/kernel/mm/transparent_hugepage/*",
    "/sys/devices/system/cpu/smt/control",
    "/sys/devices/system/cpu/cpu*/online",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_*",
    "/sys/devices/system/cpu/intel_pstate/*",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/block/*/queue/scheduler",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
)
#: counters, and what every container or process changes by being there
NO_SETTINGS = re.compile(r"/(ns_last_pid|random|stat_refresh|drop_caches|compact_memory|\w*cur_freq)$")


def settings() -> dict[str, bytes]:
    """Every setting of the kernel that bears on speed and can be read."""
    found = {}
    for pattern in SETTINGS:
        for path in Path("/").glob(pattern.lstrip("/")):
            if path.is_file() and not NO_SETTINGS.search(str(path)):
                try:
                    found[str(path)] = path.read_bytes()
                except OSError:
                    continue
    return found


def test_case_14_neither_doctor_nor_a_measurement_changes_a_setting(bench: Bench, repository: Path) -> None:
    before = settings()
    assert len(before) > 100
    doctor = subprocess.run(
        ["make", "--silent", "doctor"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Nothing was changed" in doctor.stdout, doctor.stdout + doctor.stderr
    bench.measure(*ARMS, folder="settings")
    assert settings() == before


WRITES = """
import sys
from pathlib import Path
opened = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] is not None:
        name = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode()
        if arguments[2] & 3 and name.startswith(("/proc/", "/sys/")):
            opened.append(name)
sys.addaudithook(hook)
import runpy
try:
    runpy.run_module("tare.doctor", run_name="__main__", alter_sys=True)
except SystemExit:
    pass
# Opening this one is how it is found out whether it could be written; it holds no setting.
print("written:", sorted(set(opened) - {"/proc/sys/vm/drop_caches"}))
"""


def test_case_14_doctor_opens_no_setting_of_the_kernel_for_writing(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITES],
        cwd=repository,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1] == "written: []", done.stdout + done.stderr
