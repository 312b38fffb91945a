"""The network workloads for real: two runs of each runtime, on this machine's own Python and iperf3, in blocks."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from own_python import own_stack

from tare import processes, records, sweep
from tare.ground import BlockRequest
from tare.identity import owner_id
from tare.measure import measure_block
from tare.runtimes import engine, overlay_network
from tare.runtimes.base import LABEL
from tare.variants import Variant
from tare.workloads import tool
from tare.workloads.registry import WORKLOADS

pytestmark = [
    pytest.mark.engine,
    pytest.mark.needs("chroot", "hpc_host", "two_cpus", "native", "vxlan"),
]

DIGEST = "sha256:" + "ef" * 32
VARIANTS = {
    "docker-host-network": Variant(base="docker", label="without network namespace", without=("network",)),
    "host-vxlan": Variant(base="host", label="VXLAN overlay", network="vxlan"),
}
LOOPBACK = ("host", "chroot", "docker-host-network")
CARRYING = (*LOOPBACK, "docker", "host-vxlan")
Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Blocks of a network workload on a stack that is this machine's Python and iperf3."""

    folder: Path
    request: BlockRequest

    def measure(self, workload: str, *names: str, **factors: int | str) -> dict[str, Row]:
        """Measure one block; return runtime → row, fingerprint parsed where there is one."""
        spec = WORKLOADS[workload]
        request = dataclasses.replace(
            self.request,
            workload=workload,
            cell=workload,
            factors={**{name: f.default for name, f in spec.factors.items()}, "seconds": 1, **factors},
            runtimes=names,
            control=names[0],
            native=self.folder / "pingpong.json" if spec.native else None,
        )
        block = self.folder / "study" / "blocks" / workload / "1.parquet"
        measure_block(request, block)
        rows: list[Row] = records.read(block, records.BLOCK).to_pylist()
        for row in rows:
            row["fingerprint"] = json.loads(row["fingerprint"]) if row["fingerprint"] else None
        return {row["runtime"]: row for row in rows}


@pytest.fixture(scope="module")
def bench(
    tiny_root: Path,
    repository: Path,
    tmp_path_factory: pytest.TempPathFactory,
    native_program: Callable[[str], Path],
) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("network")
    shutil.copy(native_program("pingpong"), folder / "pingpong")
    (folder / "pingpong.json").write_text(json.dumps({"status": "ok", "reasons": []}))
    with own_stack(folder, tiny_root, DIGEST, repository, add_iperf3) as blank:
        yield Bench(folder, dataclasses.replace(blank, study="test-network", variants=VARIANTS))


def add_iperf3(root: Path) -> None:
    for path in tool.libraries(tool.find("iperf3", "iperf3")):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    link_sonames(root)


def link_sonames(root: Path) -> None:
    """Give each library the name that the loader asks for, as ldconfig does."""
    told = subprocess.run(
        ["ldd", shutil.which("iperf3") or ""], capture_output=True, text=True, check=True
    ).stdout
    for line in told.splitlines():
        words = line.split()
        if "=>" in words:
            asked, real = Path(words[2]), Path(words[2]).resolve()
            link = root / str(asked).lstrip("/")
            if asked != real and not link.exists():
                link.symlink_to(real)


def nothing_is_left() -> None:
    assert engine.api().containers(all=True, filters={"label": f"{LABEL}=test-network"}) == []
    assert list(processes.find(lambda marks: marks.get(processes.OWNER) == owner_id())) == []
    assert [path.name for path in overlay_network.FOLDER.glob("tare-*")] == []


def assert_path(runtime: str, local: str, remote: str) -> None:
    """The addresses are those of the path that the runtime has."""
    if runtime in LOOPBACK:
        assert (local, remote) == ("127.0.0.1", "127.0.0.1")
    elif runtime == "host-vxlan":
        assert (local, remote) == ("198.18.1.2", "198.18.1.1")
    else:
        network = engine.api().inspect_network("bridge")["IPAM"]["Config"][0]["Subnet"]
        assert local != remote
        assert {ipaddress.ip_address(one) in ipaddress.ip_network(network) for one in (local, remote)} == {
            True
        }


def test_tcp_on_every_path(bench: Bench) -> None:
    rows = bench.measure("net-tcp", *CARRYING, "docker-hardened")
    for name in CARRYING:
        row = rows[name]
        assert (row["status"], row["reasons"]) == ("ok", []), name
        values = [sample["value"] for sample in row["samples"]]
        assert {(s["metric"], s["unit"], s["phase"]) for s in row["samples"]} == {
            ("received_bytes_per_second", "B/s", "steady")
        }
        assert 8 <= len(values) <= 11
        check, peer = row["fingerprint"]["check"], row["fingerprint"]["peer"]
        ((local, local_port, remote, remote_port),) = check["connected"]
        assert_path(name, local, remote)
        assert peer["check"]["connected"] == [[remote, remote_port, local, local_port]]
        assert peer["cpu_seconds"] > 0.01
        assert peer["software"]["iperf3"] == row["fingerprint"]["software"]["iperf3"]
        assert check["received_bytes"] > 0
    refused = rows["docker-hardened"]
    assert (refused["status"], refused["samples"]) == ("skipped", [])
    assert refused["reasons"] == [
        "docker-hardened: there is no network between two runs of this runtime; "
        "leave it out of this cell's `runtimes:`"
    ]
    nothing_is_left()


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_round_trips_on_every_path(bench: Bench, protocol: str) -> None:
    rows = bench.measure("net-latency", *CARRYING, protocol=protocol, bytes=1024)
    work = {"bytes": 1024, "protocol": protocol, "placement": "apart", "bound": True}
    cpus = sorted(os.sched_getaffinity(0))
    for name in CARRYING:
        row = rows[name]
        assert (row["status"], row["reasons"]) == ("ok", []), name
        check, peer = row["fingerprint"]["check"], row["fingerprint"]["peer"]["check"]
        assert check["work"] == work
        assert (check["cpu"], peer["cpu"]) == (cpus[0], cpus[1])
        assert_path(name, check["local_address"], check["remote_address"])
        assert (peer["remote_address"], peer["remote_port"]) == (check["local_address"], check["local_port"])
        assert peer["messages"] == check["round_trips"] + check["warm_up_round_trips"]
        medians = [s["value"] for s in row["samples"] if s["metric"] == "round_trip_seconds"]
        assert len(medians) == 20
        assert (
            check["quantiles_seconds"]["min"]
            <= min(medians)
            <= max(medians)
            <= check["quantiles_seconds"]["max"]
        )
        assert row["fingerprint"]["software"] == row["fingerprint"]["peer"]["software"]
    assert rows["host"]["fingerprint"]["software"] == rows["docker"]["fingerprint"]["software"]
    nothing_is_left()


def test_a_peer_that_cannot_serve_fails_the_run_and_leaves_nothing(bench: Bench) -> None:
    broken = bench.folder / "pingpong"
    good = broken.read_bytes()
    broken.write_bytes(b"no program")
    try:
        rows = bench.measure("net-latency", "host", "docker", "host-vxlan")
    finally:
        broken.write_bytes(good)
    for name, row in rows.items():
        assert (row["status"], row["samples"]) == ("failed", []), name
        assert row["reasons"][0].startswith("peer: worker: "), name
        assert "Exec format error" in row["reasons"][0]
        kept = bench.folder / "study/logs/runs/net-latency/1" / f"1-{row['position']}-{name}" / "peer"
        assert "Exec format error" in (kept / "stderr.txt").read_text()
    nothing_is_left()


def test_a_client_that_fails_ends_its_peer_too(bench: Bench) -> None:
    """A datagram that is too large: the program refuses it on both sides."""
    rows = bench.measure("net-latency", "host", "docker", protocol="udp", bytes=100_000)
    for name, row in rows.items():
        assert row["status"] == "failed", name
        assert "--bytes: 100000 do not fit into a datagram; allowed with udp: 1 to 65507" in "".join(
            row["reasons"]
        )
    nothing_is_left()


def test_two_cpus_that_are_not_there_are_named(bench: Bench) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        rows = bench.measure("net-latency", "host")
    finally:
        os.sched_setaffinity(0, before)
    assert rows["host"]["status"] == "failed"
    assert rows["host"]["reasons"][0] == (
        "peer: worker: PlacementError: placement: apart needs two CPUs, this run may use 1; use placement=together"
    )


KILLED = """
    import os, signal
    from pathlib import Path
    from tare.identity import owner_id
    from tare.runtimes import overlay_network
    overlay_network.make(owner_id())
    print(owner_id(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_networks_of_a_killed_process_go_with_the_next_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_sweep_processes", list)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    owner = done.stdout.strip()
    names = sorted(overlay_network.name(owner, node) for node in overlay_network.NODES)
    assert sorted(path.name for path in overlay_network.FOLDER.glob("tare-*")) == names
    assert [text for text in sweep.sweep() if "namespace" in text] == [
        f"network namespace {name}" for name in names
    ]
    nothing_is_left()


def test_networks_of_the_living_stay() -> None:
    overlay_network.make(owner_id())
    try:
        assert overlay_network.sweep() == []
        assert len(list(overlay_network.FOLDER.glob("tare-*"))) == 2
    finally:
        overlay_network.remove(owner_id())
    nothing_is_left()


def test_nothing_of_the_machines_own_network_changes() -> None:
    def seen() -> list[str]:
        return [
            subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout
            for words in (["-o", "link"], ["route", "show", "table", "all"], ["-o", "address"])
        ]

    before = seen()
    overlay_network.make(owner_id())
    try:
        assert [line.split(" mode ")[0] for line in seen()] == [line.split(" mode ")[0] for line in before]
    finally:
        overlay_network.remove(owner_id())


def test_half_made_networks_are_taken_down(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = overlay_network.commands(owner_id())
    monkeypatch.setattr(
        overlay_network, "commands", lambda _: [*whole[:5], ["link", "add", "type", "nonsense"]]
    )
    with pytest.raises(overlay_network.NetworkError, match=r"^ip link add type nonsense: "):
        overlay_network.make(owner_id())
    nothing_is_left()
