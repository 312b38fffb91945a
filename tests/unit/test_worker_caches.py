"""Last-level caches as /sys tells them: each once, only those of the CPUs that may be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.worker.caches import FALLBACK_BYTES, last_level_bytes

MIB = 1 << 20


def cache(
    root: Path, cpu: int, index: int, level: int, size: str, shared: str, kind: str = "Unified"
) -> None:
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", str(level)), ("size", size), ("shared_cpu_list", shared), ("type", kind)):
        (folder / name).write_text(text + "\n")


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """Four CPUs, two of them on each of two 16 MiB caches."""
    for cpu in range(4):
        cache(tmp_path, cpu, 0, 1, "32K", str(cpu), "Data")
        cache(tmp_path, cpu, 1, 1, "64K", str(cpu), "Instruction")
        cache(tmp_path, cpu, 2, 2, "1024K", str(cpu))
        cache(tmp_path, cpu, 3, 3, "16384K", "0-1" if cpu < 2 else "2-3")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("cpus", "expected"), [([0], 16), ([0, 1], 16), ([1, 2], 32), ([0, 1, 2, 3], 32), ([3], 16)]
)
def test_each_cache_counts_once(machine: str, cpus: list[int], expected: int) -> None:
    assert last_level_bytes(machine, cpus) == expected * MIB


def test_level_two_where_there_is_no_third(tmp_path: Path) -> None:
    for cpu in range(2):
        cache(tmp_path, cpu, 0, 1, "32K", str(cpu), "Data")
        cache(tmp_path, cpu, 1, 2, "2M", str(cpu))
    assert last_level_bytes(str(tmp_path), [0, 1]) == 4 * MIB


def test_caches_without_a_list_of_cpus_are_not_merged(tmp_path: Path) -> None:
    for cpu in range(2):
        cache(tmp_path, cpu, 0, 3, "1G", "")
    assert last_level_bytes(str(tmp_path), [0, 1]) == 2 << 30


def test_instruction_caches_and_broken_entries_do_not_count(tmp_path: Path) -> None:
    cache(tmp_path, 0, 0, 4, "64M", "0", "Instruction")
    cache(tmp_path, 0, 1, 3, "unknown", "0")
    cache(tmp_path, 0, 2, 2, "512K", "0")
    (tmp_path / "sys/devices/system/cpu/cpu0/cache/uevent").write_text("")
    assert last_level_bytes(str(tmp_path), [0]) == 512 << 10


def test_fallback_where_sys_tells_nothing(tmp_path: Path) -> None:
    assert last_level_bytes(str(tmp_path), [0, 1]) == FALLBACK_BYTES == 32 * MIB
