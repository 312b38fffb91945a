"""The fingerprint of a process, from recorded kernel texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.worker import process_facts
from tare.worker.mounts import mount_of, parse_mountinfo

MOUNTS = (
    "21 1 0:44 / / rw,relatime - overlay overlay rw,lowerdir=/l/A:/l/B,upperdir=/u,workdir=/w,xino=off\n"
    "22 21 254:0 /runs/7 /tare rw,nosuid - ext4 /dev/vda rw,discard\n"
    "23 21 254:0 /my\\040data /data ro - ext4 /dev/vda rw,discard\n"
    "24 21 0:50 / /dev/shm rw - tmpfs shm rw,size=65536k\n"
    "25 21 0:51 / /tare2 rw - tmpfs none rw\n"
    "not a mount\n"
)


def test_mount_of_takes_the_longest_point_and_the_last_of_equals() -> None:
    mounts = parse_mountinfo(MOUNTS + "26 21 0:60 / /data rw - tmpfs late rw\n")
    assert len(mounts) == 6
    assert mounts[2].root == "/my data"
    found = {path: mount_of(path, mounts) for path in ("/", "/tare", "/tare/x", "/tarex", "/data/f")}
    assert {path: mount.type if mount else None for path, mount in found.items()} == {
        "/": "overlay",
        "/tare": "ext4",
        "/tare/x": "ext4",
        "/tarex": "overlay",
        "/data/f": "tmpfs",
    }
    assert mount_of("/x", []) is None


def test_mounts_of_a_run_without_the_names_of_layers(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    assert process_facts.mounts({"/": "/", "output": "/tare", "data": None}, str(tmp_path)) == {
        "/": {
            "type": "overlay",
            "source": "overlay",
            "device": "0:44",
            "options": "rw,relatime",
            "super_options": "rw,xino=off",
        },
        "output": {
            "type": "ext4",
            "source": "/dev/vda",
            "device": "254:0",
            "options": "rw,nosuid",
            "super_options": "rw,discard",
        },
        "data": None,
    }


def test_status_fields_of_old_and_new_kernels() -> None:
    text = "Name:\tpython3\nSeccomp:\t2\nSpeculation_Store_Bypass:\tthread vulnerable\nCapEff:\t0000\nNoNewPrivs:\t1\n"
    assert process_facts.status(text) == {
        "Seccomp": "2",
        "Speculation_Store_Bypass": "thread vulnerable",
        "SpeculationIndirectBranch": None,
        "CapEff": "0000",
        "NoNewPrivs": "1",
    }


def test_huge_pages_tell_the_chosen_mode(tmp_path: Path) -> None:
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    folder.mkdir(parents=True)
    (folder / "enabled").write_text("always [madvise] never\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("HugePages_Total: 9\nHugePages_Free:        4\n")
    assert process_facts.huge_pages(str(tmp_path)) == {"enabled": "madvise", "defrag": None, "free": 4}


def test_libraries_are_regular_files_once_and_sorted(tmp_path: Path) -> None:
    second, first = tmp_path / "b lib.so", tmp_path / "a.so"
    for path in (first, second):
        path.write_text("")
    lines = [
        f"7f00-7f01 r-xp 00000000 fe:00 12 {second}",
        f"7f01-7f02 r--p 00000000 fe:00 12 {second}",
        f"7f02-7f03 r--p 00000000 fe:00 13    {first}",
        f"7f04-7f05 r--p 00000000 fe:00 14 {tmp_path}/gone.so (deleted)",
        f"7f05-7f06 r--p 00000000 fe:00 14 {tmp_path}",
        "7f06-7f07 rw-p 00000000 00:00 0 [heap]",
        "7f07-7f08 rw-p 00000000 00:00 0 ",
        "7f08-7f09 rw-s 00000000 00:01 7 /dev/zero",
    ]
    assert process_facts.libraries("\n".join(lines)) == [str(first), str(second)]


@pytest.mark.parametrize(
    ("built", "pgo", "lto"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, True, True),
        ({"CONFIG_ARGS": "'--enable-shared'", "OPT": "-DNDEBUG -O3 -Wall"}, False, False),
        ({"CFLAGS": "-O2 -fprofile-use -flto=auto"}, True, True),
        ({"CONFIG_ARGS": "'--enable-optimizations'", "CFLAGS": "-O2"}, True, False),
        ({"LDFLAGS": "-flto -fuse-linker-plugin"}, False, True),
        ({}, False, False),
    ],
)
def test_case_3_how_the_interpreter_was_built_is_recorded(
    monkeypatch: pytest.MonkeyPatch, built: dict[str, str], pgo: bool, lto: bool
) -> None:
    monkeypatch.setattr(process_facts.sysconfig, "get_config_var", built.get)
    found = process_facts.interpreter()
    assert (found["pgo"], found["lto"]) == (pgo, lto)
    for key in ("CONFIG_ARGS", "CFLAGS", "OPT", "LDFLAGS"):
        assert found[key] == built.get(key)


def test_absent_shared_memory_is_said(tmp_path: Path) -> None:
    assert process_facts.shared_memory(str(tmp_path / "none")) == {
        "bytes": None,
        "free_bytes": None,
        "type": None,
    }
    here = process_facts.shared_memory(str(tmp_path))
    assert here["bytes"] >= here["free_bytes"] > 0


def test_the_whole_of_this_process(tmp_path: Path) -> None:
    found = process_facts.process(str(tmp_path), None)
    assert found["interpreter"]["version"].startswith("3.")
    assert isinstance(found["interpreter"]["pgo"], bool)
    assert found["ulimits"]["memlock"][0] == "unlimited" or found["ulimits"]["memlock"][0] >= 0
    assert found["effective_cpus"] <= len(found["affinity"])
    assert found["mounts"]["output"] is not None
