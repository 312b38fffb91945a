"""Every check on recorded trees: value, level, remedy; the table; the exit status."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import tare.doctor.__main__ as command
from tare.doctor import able, cpu, gpu, machine, memory, residency, surroundings
from tare.doctor.machine import Finding, Machine
from tare.setup.capabilities import NAMES, Capability
from tare.setup.engine_probe import EngineState
from tare.worker import page_cache
from tare.worker.mounts import mount_of, read_mounts

CPU = "sys/devices/system/cpu"
V1_MOUNT = "31 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
V2_MOUNT = "31 23 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Machine]:
    """``tree({path: text}, **facts)``: a machine whose root holds these files."""

    def make(files: Mapping[str, str] | None = None, **facts: Any) -> Machine:
        for name, text in (files or {}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return Machine(root=tmp_path, **facts)

    return make


def seen(finding: Finding) -> tuple[str, str]:
    return finding.level, finding.value


def having(*names: str) -> Callable[[str], Capability]:
    return lambda name: Capability(
        name, name in names, f"{name} tried", "" if name in names else f"get {name}"
    )


@pytest.mark.parametrize(
    ("check", "files", "expected"),
    [
        (cpu.governor, {}, ("info", "not shown")),
        (
            cpu.governor,
            {f"{CPU}/cpu{n}/cpufreq/scaling_governor": "performance\n" for n in (0, 1)},
            ("ok", "performance"),
        ),
        (
            cpu.governor,
            {f"{CPU}/cpu{n}/cpufreq/scaling_governor": g for n, g in enumerate(("powersave", "performance"))},
            ("warn", "performance, powersave"),
        ),
        (cpu.turbo, {}, ("info", "not shown")),
        (cpu.turbo, {f"{CPU}/intel_pstate/no_turbo": "0\n"}, ("warn", "on")),
        (cpu.turbo, {f"{CPU}/intel_pstate/no_turbo": "1\n"}, ("ok", "off")),
        (cpu.turbo, {f"{CPU}/cpufreq/boost": "1"}, ("warn", "on")),
        (cpu.turbo, {f"{CPU}/cpufreq/boost": "0"}, ("ok", "off")),
        (cpu.smt, {}, ("info", "not shown")),
        (cpu.smt, {f"{CPU}/smt/active": "1\n"}, ("warn", "on")),
        (cpu.smt, {f"{CPU}/smt/active": "0\n"}, ("ok", "off")),
        (cpu.load, {}, ("info", "not shown")),
        (
            cpu.load,
            {f"{CPU}/online": "0-3\n", "proc/loadavg": "0.39 0.10 0.1 1/99 7"},
            ("ok", "0.39 over 1 min, 0.10 over 5 min"),
        ),
        (
            cpu.load,
            {f"{CPU}/online": "0-3\n", "proc/loadavg": "0.40 0.10 0.1 1/99 7"},
            ("warn", "0.40 over 1 min, 0.10 over 5 min"),
        ),
        (cpu.pressure, {}, ("info", "not shown")),
        (
            cpu.pressure,
            {"proc/pressure/cpu": "some avg10=4.99 avg60=1.00 total=1\n"},
            ("ok", "4.99 % of the last 10 s"),
        ),
        (
            cpu.pressure,
            {"proc/pressure/cpu": "some avg10=5.00 avg60=1.00 total=1\n"},
            ("warn", "5 % of the last 10 s"),
        ),
        (cpu.steal, {}, ("info", "not shown")),
        (cpu.steal, {"proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\n"}, ("info", "not shown")),
        (cpu.steal, {"proc/stat": "cpu  500 0 400 90 0 0 0 10 0 0\ncpu0 1"}, ("warn", "1.00% since boot")),
        (cpu.steal, {"proc/stat": "cpu  500 0 400 91 0 0 0 9 0 0\ncpu0 1"}, ("ok", "0.90% since boot")),
        (cpu.clock, {}, ("info", "not shown")),
        (
            cpu.clock,
            {"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n"},
            ("ok", "tsc"),
        ),
        (
            cpu.clock,
            {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"},
            ("warn", "hpet"),
        ),
        (cpu.throttling, {}, ("info", "not shown")),
        (
            cpu.throttling,
            {f"{CPU}/cpu{n}/thermal_throttle/core_throttle_count": "0" for n in (0, 1)},
            ("ok", "0 times since boot"),
        ),
        (
            cpu.throttling,
            {f"{CPU}/cpu{n}/thermal_throttle/core_throttle_count": "2" for n in (0, 1)},
            ("warn", "4 times since boot"),
        ),
        (cpu.power, {}, ("info", "none")),
        (cpu.power, {"sys/class/power_supply/BAT0/status": "Discharging\n"}, ("warn", "discharging")),
        (
            cpu.power,
            {"sys/class/power_supply/BAT0/status": "Full\n", "sys/class/power_supply/AC/online": "1"},
            ("ok", "mains"),
        ),
        (memory.available, {}, ("info", "not shown")),
        (memory.available, {"proc/meminfo": f"MemAvailable:   {4 << 20} kB\n"}, ("ok", "4.0 GiB")),
        (memory.available, {"proc/meminfo": f"MemAvailable:   {(4 << 20) - 1} kB\n"}, ("warn", "4.0 GiB")),
        (memory.swap, {"proc/meminfo": "SwapTotal:      0 kB\nSwapFree:       0 kB\n"}, ("ok", "none")),
        (
            memory.swap,
            {"proc/meminfo": "SwapTotal: 2097152 kB\nSwapFree: 2097152 kB\n"},
            ("ok", "0.0 of 2.0 GiB used"),
        ),
        (
            memory.swap,
            {"proc/meminfo": "SwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n"},
            ("warn", "1.0 of 2.0 GiB used"),
        ),
        (memory.huge_pages, {}, ("info", "not shown")),
        (
            memory.huge_pages,
            {
                "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
                "sys/kernel/mm/transparent_hugepage/defrag": "[always] defer madvise never\n",
            },
            ("warn", "enabled always, defrag always; the same for host and containers"),
        ),
        (
            memory.huge_pages,
            {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"},
            ("ok", "enabled never, defrag not shown; the same for host and containers"),
        ),
        (memory.shared_memory, {}, ("warn", "absent")),
        (surroundings.preloaded, {}, ("ok", "none")),
        (surroundings.preloaded, {"etc/ld.so.preload": "\n"}, ("ok", "none")),
        (surroundings.preloaded, {"etc/ld.so.preload": "/lib/x.so\n"}, ("warn", "/lib/x.so")),
        (surroundings.mitigations, {}, ("info", "not shown")),
        (
            surroundings.mitigations,
            {"proc/self/status": "Seccomp:\t2\nSeccomp_filters:\t1\nSpeculation_Store_Bypass:\tvulnerable\n"},
            ("warn", "Seccomp 2, Speculation_Store_Bypass vulnerable"),
        ),
        (surroundings.mitigations, {"proc/self/status": "Seccomp:\t0\n"}, ("ok", "Seccomp 0")),
        (surroundings.inside_container, {}, ("ok", "no")),
        (
            surroundings.inside_container,
            {".dockerenv": "", "proc/self/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n"},
            ("ok", "no"),
        ),
        (
            surroundings.inside_container,
            {".dockerenv": "", "proc/self/mountinfo": "27 1 0:50 / / rw - overlay overlay rw\n"},
            ("warn", "yes (/.dockerenv, overlay root)"),
        ),
    ],
)
def test_checks_on_files(
    tree: Callable[..., Machine],
    check: Callable[[Machine], Finding],
    files: dict[str, str],
    expected: tuple[str, str],
) -> None:
    finding = check(tree(files))
    assert seen(finding) == expected
    assert bool(finding.remedy) == (finding.level in ("warn", "no"))


@pytest.mark.parametrize(
    ("files", "affinity", "expected"),
    [
        ({}, 4, ("ok", "4 of 4 (affinity 4, quota none)")),
        ({}, 1, ("warn", "1 of 4 (affinity 1, quota none)")),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "proc/self/mountinfo": V1_MOUNT,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            4,
            ("warn", "2 of 4 (affinity 4, quota 1.5)"),
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "proc/self/mountinfo": V2_MOUNT,
                "sys/fs/cgroup/cpu.max": "100000 100000",
            },
            4,
            ("warn", "1 of 4 (affinity 4, quota 1)"),
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "proc/self/mountinfo": V2_MOUNT,
                "sys/fs/cgroup/cpu.max": "max 100000",
            },
            4,
            ("ok", "4 of 4 (affinity 4, quota none)"),
        ),
    ],
)
def test_effective_cpus(
    tree: Callable[..., Machine], files: dict[str, str], affinity: int, expected: tuple[str, str]
) -> None:
    assert seen(cpu.cpus(tree({f"{CPU}/online": "0-3\n", **files}, affinity=affinity))) == expected


@pytest.mark.parametrize(("text", "count"), [("0", 1), ("0-3", 4), ("0-3,8,10-11", 7), ("", 0)])
def test_count_cpus(text: str, count: int) -> None:
    assert cpu.count_cpus(text) == count


def test_shared_memory_of_this_machine() -> None:
    size = os.statvfs("/dev/shm")
    finding = memory.shared_memory(Machine())
    assert finding.value.startswith(
        f"{size.f_blocks * size.f_frsize / (1 << 30):.2f} GiB here, 64 MiB in a container"
    )


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (resource.RLIM_INFINITY, ("ok", "unlimited")),
        (64 << 20, ("ok", "64 MiB")),
        (8 << 20, ("warn", "8 MiB")),
    ],
)
def test_locked_memory(tree: Callable[..., Machine], limit: int, expected: tuple[str, str]) -> None:
    assert seen(memory.locked_memory(tree(memlock=limit))) == expected


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, ("info", "not shown")),
        ({"SwapLimit": True}, ("ok", "yes")),
        ({"SwapLimit": False}, ("warn", "no: a memory limit does not limit swap")),
    ],
)
def test_swap_accounting(
    tree: Callable[..., Machine], info: dict[str, bool], expected: tuple[str, str]
) -> None:
    assert seen(memory.swap_accounting(tree(engine_info=info))) == expected


def test_hidden_variables_are_named(tree: Callable[..., Machine]) -> None:
    loud = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_DEBUG_CPU_TYPE": "5",
        "GOMP_CPU_AFFINITY": "0",
        "LD_PRELOAD": "x.so",
        "MALLOC_ARENA_MAX": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    quiet = {"HOME": "/root", "PYTHONPATH": "src", "TF_CLI_CONFIG_FILE": "x", "LDFLAGS": "-s", "OMPX": "1"}
    finding = surroundings.hidden_variables(tree(environ={**loud, **quiet}))
    assert seen(finding) == ("warn", ", ".join(f"{name}={loud[name]}" for name in sorted(loud)))
    assert finding.remedy.startswith(f"unset {' '.join(sorted(loud))} (")
    assert seen(surroundings.hidden_variables(tree(environ=quiet))) == ("ok", "none")


@pytest.mark.parametrize(
    ("kind", "level"), [("ext4", "ok"), ("xfs", "ok"), ("tmpfs", "warn"), ("nfs4", "warn"), ("zfs", "warn")]
)
def test_file_system(tree: Callable[..., Machine], tmp_path: Path, kind: str, level: str) -> None:
    lines = f"27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:9 / {tmp_path} rw - {kind} x rw\n"
    finding = surroundings.file_system(tree({"proc/self/mountinfo": lines}, checkout=tmp_path / "here"))
    assert seen(finding) == (level, kind)


def test_free_disk(tree: Callable[..., Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = {tmp_path: 30_000_000_000, tmp_path / "cache": 11_900_000_000}
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(surroundings.shutil, "disk_usage", lambda path: Usage(usage[path]))
    where = tree(checkout=tmp_path, cache=tmp_path / "cache" / "tare")
    monkeypatch.setattr(surroundings, "_existing", lambda path: path if path in usage else path.parent)
    finding = surroundings.disk_space(where)
    assert seen(finding) == ("warn", f"30 GB at {tmp_path}, 12 GB at {tmp_path}/cache/tare")


@dataclasses.dataclass
class Usage:
    free: int


@pytest.mark.parametrize(
    ("containers", "expected"),
    [(None, ("info", "no engine tells")), ([], ("ok", "none")), (["db", "web"], ("warn", "db, web"))],
)
def test_other_containers(
    tree: Callable[..., Machine], containers: list[str] | None, expected: tuple[str, str]
) -> None:
    assert seen(surroundings.other_containers(tree(containers=containers))) == expected


def test_tares_own_containers_are_not_others() -> None:
    running = [
        {"Names": ["/web"], "Labels": None},
        {"Names": ["/tare-1"], "Labels": {"tare": "1"}},
        {"Names": [], "Id": "0123456789abcdef", "Labels": {}},
    ]
    assert machine.others(running) == ["0123456789ab", "web"]


def test_engine_beside_host_runs(tree: Callable[..., Machine]) -> None:
    up = tree(engine=EngineState("answers", "unix:///x"))
    assert surroundings.engine_beside_host(up).value.startswith("up, also during host runs")
    assert seen(surroundings.engine_beside_host(tree())) == ("info", "down")


@pytest.mark.parametrize(
    ("names", "fadvise", "expected"),
    [
        (("drop_caches",), True, ("ok", "drop_caches and posix_fadvise, proved by mincore")),
        (("drop_caches",), None, ("ok", "drop_caches")),
        ((), True, ("ok", "posix_fadvise, proved by mincore")),
        ((), False, ("no", "no way to evict a file was proved here")),
        ((), None, ("no", "no way to evict a file was proved here")),
    ],
)
def test_cold_cache(
    tree: Callable[..., Machine], names: tuple[str, ...], fadvise: bool | None, expected: tuple[str, str]
) -> None:
    assert seen(able.cold_cache(tree(capability=having(*names), fadvise_evicts=fadvise))) == expected


@pytest.mark.parametrize(
    ("names", "level", "remedy"),
    [
        (("root", "mmdebstrap"), "ok", ""),
        (("root",), "no", "get mmdebstrap; or software.base.source: registry"),
        (("mmdebstrap", "userns", "subids"), "ok", ""),
        (("mmdebstrap",), "no", "get userns; get subids; or software.base.source: registry"),
    ],
)
def test_bootstrap(tree: Callable[..., Machine], names: tuple[str, ...], level: str, remedy: str) -> None:
    finding = able.bootstrap(tree(capability=having(*names)))
    assert (finding.level, finding.remedy) == (level, remedy)


def test_engine_is_described(tree: Callable[..., Machine]) -> None:
    info = {"ServerVersion": "20.10.24", "Driver": "overlay2", "CgroupVersion": "1"}
    where = tree(engine=EngineState("answers", "x"), engine_info=info, capability=having("engine"))
    assert seen(able.docker(where)) == ("ok", "engine 20.10.24, storage overlay2, cgroup v1")
    assert seen(able.docker(tree(capability=having()))) == ("no", "engine tried")


def test_crun_names_all_that_it_lacks(tree: Callable[..., Machine]) -> None:
    assert seen(able.crun(tree(capability=having("chroot", "crun", "engine")))) == ("ok", "crun tried")
    assert seen(able.crun(tree(capability=having("engine")))) == ("no", "chroot tried; crun tried")


def test_one_row_for_each_runtime_and_form(tree: Callable[..., Machine]) -> None:
    assert [finding.check for finding in able.able(tree(capability=having(*NAMES)))] == [
        "runtime host (torch)",
        "runtime host (hpc)",
        "runtime chroot",
        "runtime chroot-userns",
        "runtime crun",
        "runtimes docker, -pure, -hardened",
        "image and root filesystem",
        "cold page cache",
        "GPU",
    ]


H200 = {
    "model": "NVIDIA H200",
    "driver": "550.127",
    "persistence_mode": "Enabled",
    "sm_clock_hz": 345e6,
    "max_sm_clock_hz": 1980e6,
    "power_limit_watts": 700.0,
    "utilisation": 0.0,
    "clock_reasons": "0x1",
}
GPU_PARTS = ("persistence mode", "clocks", "load now")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "none: stack torch-cuda is skipped"),
        (
            {"proc/driver/nvidia/version": "NVRM version: 570.1\nGCC"},
            "the driver is loaded (NVRM version: 570.1), nvidia-smi lists none: stack torch-cuda is skipped",
        ),
    ],
)
def test_no_gpu(tree: Callable[..., Machine], files: dict[str, str], says: str) -> None:
    here = tree(files)
    assert [seen(finding) for finding in gpu.able(here)] == [("info", says)]
    assert gpu.disturbs(here) == []


@pytest.mark.parametrize(
    ("names", "level", "remedy"), [(("gpu_containers",), "ok", ""), ((), "no", "get gpu_containers")]
)
def test_gpus_and_their_toolkit(
    tree: Callable[..., Machine], names: tuple[str, ...], level: str, remedy: str
) -> None:
    gpus, toolkit = gpu.able(tree(gpus=[H200, H200], capability=having(*names)))
    assert seen(gpus) == ("ok", "NVIDIA H200, driver 550.127; NVIDIA H200, driver 550.127")
    assert (toolkit.check, toolkit.level, toolkit.remedy) == ("GPU in containers", level, remedy)


@pytest.mark.parametrize(
    ("facts", "levels", "says"),
    [
        ({}, "ok ok ok", "345 MHz now, at most 1980 MHz, power limit 700 W"),
        ({"persistence_mode": "Disabled"}, "warn ok ok", "sudo nvidia-smi -i 1 -pm 1"),
        ({"persistence_mode": None, "utilisation": None}, "info ok info", "not shown"),
        ({"clock_reasons": "0x40"}, "ok warn ok", "the hardware slowed the clocks down because of heat"),
        ({"utilisation": 0.5, "power_limit_watts": None}, "ok ok warn", "power limit not shown"),
        ({"sm_clock_hz": None}, "ok ok ok", "not shown now, at most 1980 MHz"),
    ],
)
def test_gpu_settings(tree: Callable[..., Machine], facts: dict[str, Any], levels: str, says: str) -> None:
    found = gpu.disturbs(tree(gpus=[H200, {**H200, **facts}]))
    assert [finding.check for finding in found] == [f"GPU {n} {part}" for n in (0, 1) for part in GPU_PARTS]
    assert [finding.level for finding in found] == ["ok"] * 3 + levels.split()
    assert any(says in f"{finding.value} {finding.remedy}" for finding in found[3:])


@pytest.mark.parametrize(
    ("names", "status"),
    [((), 1), (("mmdebstrap", "drop_caches"), 1), (("engine",), 0), (("host_python",), 0)],
)
def test_status_tells_whether_anything_can_be_measured(
    tree: Callable[..., Machine],
    names: tuple[str, ...],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = tree(capability=having(*names), checkout=Path("/"), cache=Path("/"))
    monkeypatch.setattr(command, "this_machine", lambda _: here)
    assert command.main([]) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Nothing can be measured here yet") == bool(status)


def test_json_has_every_finding(
    tree: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tree(capability=having("engine"), checkout=Path("/"), cache=Path("/"))
    monkeypatch.setattr(command, "this_machine", lambda _: here)
    command.main(["--json"])
    rows = json.loads(capsys.readouterr().out)
    assert rows == [dataclasses.asdict(finding) for finding in command.survey(here)]
    assert len(rows) == 33


def test_table_wraps_and_keeps_remedies() -> None:
    findings = [
        Finding(machine.ABLE, "GPU", "none", "not needed", "info"),
        Finding(
            machine.DISTURBS, "load now", "2 over 1 min", "below 0.2", "warn", "stop other work, or wait"
        ),
    ]
    assert command.table(findings, 44).splitlines() == [
        "what this machine can measure:",
        "  -  GPU       none  [good: not needed]",
        "",
        "what would disturb a measurement:",
        "  !  load now  2 over 1 min  [good: below",
        "               0.2]",
        "               → stop other work, or wait",
    ]
    assert command.conclusion(
        [dataclasses.replace(findings[1], check="runtime host", level="ok"), findings[1]]
    ).startswith("1 thing(s) marked ! would disturb a measurement. Nothing was changed.")


def test_eviction_of_an_own_file_is_proved(tmp_path: Path) -> None:
    file = tmp_path / "data"
    with file.open("wb") as out:
        out.write(os.urandom(1 << 20))
        out.flush()
        os.fsync(out.fileno())
    file.read_bytes()
    assert page_cache.resident_share(file) == 1.0
    mount = mount_of(str(tmp_path.resolve()), read_mounts())
    assert residency.evicts(file) is (
        mount is not None and mount.type != "tmpfs"
    )  # tmpfs is the cache itself
    assert residency.evicts(tmp_path / "absent") is None


def test_it_changes_nothing(tree: Callable[..., Machine], tmp_path: Path) -> None:
    here = tree(
        {f"{CPU}/intel_pstate/no_turbo": "0\n", f"{CPU}/smt/active": "1\n"}, checkout=tmp_path, cache=tmp_path
    )
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    command.survey(here)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
