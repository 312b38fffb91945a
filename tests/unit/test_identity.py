"""Who owns a run, and when an owner counts as dead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tare import identity


def test_node_id_hides_the_name_and_tells_nodes_apart() -> None:
    secret = "0" * 32
    one, two = identity._node_id("node1", secret), identity._node_id("node2", secret)
    assert one == "ed2623eaa943b3be"
    assert one != two
    assert identity._node_id("node1", "1" * 32) != one  # without the secret a name cannot be tried
    assert identity.node_id() == identity.node_id()


def test_secret_is_the_machine_id_when_it_is_one(tmp_path: Path) -> None:
    machine_id, fallback = tmp_path / "machine-id", tmp_path / "cache" / "secret"
    machine_id.write_text("3d1219c7c4c5404aaa1f6d2a48adfda4\n")
    assert identity._secret(machine_id, fallback) == "3d1219c7c4c5404aaa1f6d2a48adfda4"
    assert not fallback.exists()


@pytest.mark.parametrize("content", [None, "", "uninitialized\n"])
def test_without_a_machine_id_a_random_secret_is_kept(tmp_path: Path, content: str | None) -> None:
    machine_id, fallback = tmp_path / "machine-id", tmp_path / "cache" / "secret"
    if content is not None:
        machine_id.write_text(content)
    first = identity._secret(machine_id, fallback)
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert identity._secret(machine_id, fallback) == first
    assert [path.name for path in fallback.parent.iterdir()] == ["secret"]
    assert identity._secret(machine_id, tmp_path / "other" / "secret") != first


def test_owner_of_this_process_lives() -> None:
    owner = identity.owner_id()
    host, pid, ticks = owner.split(":")
    assert (host, int(pid), int(ticks)) == (
        identity.host_part(),
        os.getpid(),
        identity.start_ticks(os.getpid()),
    )
    assert not identity.is_dead(owner)


def test_owner_is_dead_when_it_ended_or_its_number_went_to_another() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = identity.owner_id(child.pid)
        assert not identity.is_dead(owner)
        assert child.stdin is not None
        child.stdin.close()
        # Not reaped yet: a zombie measures no more.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert identity.is_dead(owner)
    assert identity.is_dead(owner)
    host, pid, ticks = identity.owner_id().split(":")
    assert identity.is_dead(f"{host}:{pid}:{int(ticks) + 1}")


@pytest.mark.parametrize(
    "owner", ["", "nonsense", "ffffffffffffffff:999999999:1", "a:b:c", ":1:1", "host.name:1:1"]
)
def test_owner_of_another_host_or_no_owner_is_never_dead(owner: str) -> None:
    assert not identity.is_dead(owner)


def test_owner_with_an_impossible_number_is_dead() -> None:
    assert identity.is_dead(f"{identity.host_part()}:{2**22 + 1}:5")


def test_no_process_has_no_owner_id() -> None:
    with pytest.raises(ProcessLookupError, match="no process 4194305"):
        identity.owner_id(2**22 + 1)
