"""The proofs of the file workloads against a real disk: each claim is broken on purpose, and the number refused.

Cases 26, 27, 28 and 30: caches that stay, files that were never written, direct that is not direct, memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapter_requests import adapter_request
from tare.workloads import fio, io_ping, io_write, tool, written_file
from tare.workloads.io_ping import Pattern

pytestmark = [pytest.mark.needs("hpc_host")]


def run(adapter: Any, workload: str, disk: Path, **factors: Any) -> list[str]:
    """Run the workload here; return the reasons of its check."""
    task = adapter.set_up(adapter_request(workload, disk, factors, seed=3))
    for _ in task.steps(0):
        pass
    reasons: list[str] = task.check().reasons
    return reasons


def hole(path: str, size: int) -> None:
    with open(path, "wb") as file:  # noqa: PTH123 - the signature is the worker's
        file.truncate(size)


def test_a_sparse_file_has_no_number(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fio reads a hole at tens of GB/s; whatever the rate, neither the file nor the device lets it pass."""
    monkeypatch.setattr(written_file, "create", hole)
    found = run(fio, "fio-seqread", disk, seconds=1)
    assert any("(sparse or compressed)" in reason for reason in found)
    assert any("bytes were read on a device" in reason for reason in found)


def test_direct_that_is_buffered_has_no_number(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(io_ping.PATTERNS, "io-direct-random", Pattern(("-C", "-R"), 4096, "direct"))
    found = run(io_ping, "io-direct-random", disk)
    assert any("after reads that are said to be direct" in reason for reason in found)
    assert any("bytes were read on a device" in reason for reason in found)


def test_fio_without_direct_has_no_number(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffered libaio is synchronous as well: no queue is ever filled."""
    real = tool.run
    monkeypatch.setattr(
        tool,
        "run",
        lambda command, folder: real([w.replace("direct=1", "direct=0") for w in command], folder),
    )
    found = run(fio, "fio-randread", disk, depth=32, seconds=1)
    assert any("after requests that are said to be direct" in reason for reason in found)


def test_an_eviction_that_does_not_happen_has_no_number(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 26: the cache could not be dropped, and the benchmark went on."""
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    found = run(io_ping, "io-direct-random", disk)
    assert any(
        "100.0 % of the test file was in the page cache before the reads" in reason for reason in found
    )


def test_a_cache_that_was_not_filled_has_no_number(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_file, "cache_in", written_file.cache_out)
    found = run(io_ping, "io-cached-random", disk)
    assert any("0.0 % of the test file was in the page cache before the reads, cached" in r for r in found)
    assert any("bytes came from the device while" in reason for reason in found)


def test_a_write_of_holes_has_no_number(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was only made longer is on no device."""
    monkeypatch.setattr(
        os,
        "write",
        lambda handle, data: os.ftruncate(handle, os.fstat(handle).st_size + len(data)) or len(data),
    )
    found = run(io_write, "io-write", disk, size=1)
    assert any("(sparse or compressed)" in reason for reason in found)
    assert any("bytes were written on a device" in reason for reason in found)


@pytest.mark.needs("root")
def test_an_overlay_on_memory_is_refused_by_device_and_by_type(disk: Path) -> None:
    """statfs says overlay; the device counts nothing, and what lies under the layer is found to be memory."""
    script = f"""
set -e
mount -t tmpfs tmpfs {disk}
mkdir {disk}/lower {disk}/upper {disk}/work {disk}/top
mount -t overlay overlay -o lowerdir={disk}/lower,upperdir={disk}/upper,workdir={disk}/work {disk}/top
exec {sys.executable} -c '
import json
from pathlib import Path
from test_file_proofs import run
from tare import backing
from tare.worker.process_facts import process
from tare.workloads import io_ping
folder = Path("{disk}/top")
print(json.dumps([run(io_ping, "io-direct-random", folder), backing.backing(process("/", None, str(folder)))]))
'
"""
    told = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    reasons, under = json.loads(told)
    assert any("bytes were read on a device" in reason for reason in reasons)
    assert under["type"] == "tmpfs"
