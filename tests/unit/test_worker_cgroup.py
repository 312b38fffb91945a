"""Effective CPUs, memory limit and throttling, read from recorded cgroup trees (case 16: both versions)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tare.worker.cgroup import folders
from tare.worker.counters import throttled_seconds
from tare.worker.cpus import effective_cpus, memory_limit, quota_cpus

V1_CPU = "/sys/fs/cgroup/cpu,cpuacct"
V2 = "/sys/fs/cgroup"


def tree(root: Path, files: Mapping[str, str]) -> str:
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return str(root)


def v1(root: Path, path: str, mounted: str, files: Mapping[str, str]) -> str:
    return tree(
        root,
        {
            "/proc/self/cgroup": f"5:memory:{path}\n4:cpu,cpuacct:{path}\n1:name=systemd:/\n0::/\n",
            "/proc/self/mountinfo": (
                f"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                f"32 31 0:29 {mounted} {V1_CPU} rw,relatime master:9 - cgroup cgroup rw,cpu,cpuacct\n"
                f"33 31 0:30 {mounted} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            ),
            **files,
        },
    )


def v2(root: Path, path: str, files: Mapping[str, str]) -> str:
    return tree(
        root,
        {
            "/proc/self/cgroup": f"0::{path}\n",
            "/proc/self/mountinfo": f"30 23 0:26 / {V2} rw - cgroup2 cgroup2 rw,nsdelegate\n",
            **files,
        },
    )


def cfs(folder: str, quota: int, period: int = 100_000) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": f"{period}\n"}


def test_v1_inside_a_container_sees_its_group_as_root(tmp_path: Path) -> None:
    root = v1(tmp_path, "/docker/abc", "/docker/abc", cfs(V1_CPU, 100_000))
    assert folders("cpu", root) == (1, [str(tmp_path) + V1_CPU])
    assert quota_cpus(root) == 1.0
    assert effective_cpus(root, affinity=2) == 1


def test_v1_on_the_machine_takes_the_smallest_on_the_way_up(tmp_path: Path) -> None:
    files = cfs(V1_CPU, -1) | cfs(f"{V1_CPU}/slurm", 150_000) | cfs(f"{V1_CPU}/slurm/job", 400_000)
    root = v1(tmp_path, "/slurm/job", "/", files)
    assert quota_cpus(root) == 1.5
    assert effective_cpus(root, affinity=8) == 2


def test_v1_namespace_that_hides_the_own_group(tmp_path: Path) -> None:
    root = v1(tmp_path, "/elsewhere", "/docker/abc", cfs(V1_CPU, 300_000))
    assert effective_cpus(root, affinity=8) == 3


@pytest.mark.parametrize(
    ("quota", "affinity", "cpus"),
    [
        ("50000 100000", 8, 1),
        ("100000 100000", 8, 1),
        ("100001 100000", 8, 2),
        ("350000 100000", 8, 4),
        ("max 100000", 8, 8),
        ("800000 100000", 2, 2),
        ("garbage", 4, 4),
        ("", 4, 4),
    ],
)
def test_v2_quota_and_affinity(tmp_path: Path, quota: str, affinity: int, cpus: int) -> None:
    root = v2(tmp_path, "/", {f"{V2}/cpu.max": quota + "\n"})
    assert effective_cpus(root, affinity) == cpus


def test_v2_limit_of_a_parent_counts(tmp_path: Path) -> None:
    root = v2(
        tmp_path,
        "/user.slice/session",
        {f"{V2}/user.slice/cpu.max": "200000 100000\n", f"{V2}/user.slice/session/cpu.max": "max 100000\n"},
    )
    assert effective_cpus(root, affinity=16) == 2


@pytest.mark.parametrize("known", ["nothing", "no mount"])
def test_without_a_cgroup_file_system_affinity_decides(tmp_path: Path, known: str) -> None:
    root = tree(tmp_path, {"/proc/self/cgroup": "0::/\n"} if known == "no mount" else {})
    assert quota_cpus(root) is None
    assert effective_cpus(root, affinity=3) == 3
    assert throttled_seconds(root) is None


def test_of_this_process() -> None:
    import os

    assert 1 <= effective_cpus() <= len(os.sched_getaffinity(0))


MEMINFO = {"/proc/meminfo": "MemTotal:        8000 kB\nMemFree: 1 kB\n"}


def test_memory_is_the_smallest_limit(tmp_path: Path) -> None:
    memory = "/sys/fs/cgroup/memory"
    files = MEMINFO | {
        f"{memory}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{memory}/job/memory.limit_in_bytes": "4096000\n",
    }
    assert memory_limit(v1(tmp_path / "one", "/job", "/", files)) == 4_096_000
    files = MEMINFO | {f"{V2}/memory.max": "max\n"}
    assert memory_limit(v2(tmp_path / "two", "/", files)) == 8000 * 1024


def test_memory_of_a_machine_without_proc_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mount /proc"):
        memory_limit(str(tmp_path))


def test_throttling_of_both_versions(tmp_path: Path) -> None:
    files = {
        f"{V1_CPU}/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 500000000\n",
        f"{V1_CPU}/job/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 1500000000\n",
    }
    assert throttled_seconds(v1(tmp_path / "one", "/job", "/", files)) == pytest.approx(2.0)
    files = {f"{V2}/cpu.stat": "usage_usec 5\nnr_throttled 1\nthrottled_usec 2500000\n"}
    assert throttled_seconds(v2(tmp_path / "two", "/", files)) == pytest.approx(2.5)
