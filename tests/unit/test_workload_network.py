"""net-tcp and net-latency, both ends in one place: addresses, ports, commands, outputs, and what refuses them."""

from __future__ import annotations

import copy
import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from native_runs import put_program, put_result
from native_runs import said as said_by

from adapter_requests import adapter_request
from tare import parity_fields
from tare.worker.request import Request
from tare.workloads import iperf3, iperf3_output, native, net_address, net_peer, network, pingpong

DATA = Path(__file__).parents[1] / "data" / "network"
SERVER = {"role": "server", "bind": "loopback"}
CLIENT = {"role": "client", "bind": "loopback", "address": "127.0.0.1", "port": 5777, "version": "iperf 3.12"}


def request(folder: Path, workload: str, peer: dict[str, Any] | None, **factors: Any) -> Request:
    (folder / "files").mkdir(exist_ok=True)
    return adapter_request(workload, folder, factors, files=str(folder / "files"), threads=2, peer=peer)


def test_both_workloads_have_a_peer_and_no_name_is_their_own() -> None:
    assert [(w.name, w.peer, w.native, w.layer) for w in network.WORKLOADS] == [
        ("net-tcp", True, None, "network"),
        ("net-latency", True, "pingpong", "network"),
    ]


def test_a_request_without_a_peer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^net-latency needs a peer; the request must have `peer`"):
        network.set_up(request(tmp_path, "net-latency", None))


# addresses


def test_loopback_is_a_number() -> None:
    assert net_address.local_address("loopback") == "127.0.0.1"


def test_an_interface_by_name_has_its_address() -> None:
    assert net_address.local_address("interface:lo") == "127.0.0.1"


def test_the_first_interface_is_none_of_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"lo": "127.0.0.1", "down0": "", "eth1": "10.0.0.2", "eth0": "10.0.0.1"}
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(7, "eth1"), (1, "lo"), (2, "down0"), (4, "eth0")])
    monkeypatch.setattr(
        net_address,
        "_address",
        lambda name, loopback: "" if name == "lo" and not loopback else addresses[name],
    )
    assert net_address.local_address("interface") == "10.0.0.1"
    assert net_address.local_address("interface:eth1") == "10.0.0.2"


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (
            "interface:none0",
            r"no interface with an IPv4 address \(looked at: none\); this runtime has no network",
        ),
        ("anything", "bind: 'anything' is not known; allowed: loopback, interface, interface:<name>"),
        ("none", "bind: 'none' is not known"),
    ],
)
def test_no_address(bind: str, message: str) -> None:
    with pytest.raises(net_address.AddressError, match=message):
        net_address.local_address(bind)


def test_a_listening_socket_is_told_by_its_process() -> None:
    with socket.socket() as listening, socket.socket() as bound:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert not net_address.listens(os.getpid(), "127.0.0.1", port)
        listening.listen(1)
        assert net_address.listens(os.getpid(), "127.0.0.1", port)
        assert not net_address.listens(os.getppid(), "127.0.0.1", port)
        assert not net_address.listens(os.getpid(), "127.0.0.2", port)
        bound.bind(("127.0.0.1", 0))
        assert not net_address.listens(os.getpid(), "127.0.0.1", bound.getsockname()[1])
    assert not net_address.listens(os.getpid(), "127.0.0.1", port)
    assert not net_address.listens(2**22 + 1, "127.0.0.1", port)


def test_the_kernels_table_is_read_in_the_machines_byte_order() -> None:
    number = int.from_bytes(socket.inet_aton("172.17.0.2"), sys.byteorder)
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        f"   0: {number:08X}:1691 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n"
        f"   1: {number:08X}:1691 {number:08X}:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n"
        "   2: cut\n"
    )
    assert net_address.listening_inodes(table, "172.17.0.2", 5777) == ["4711"]
    assert net_address.listening_inodes(table, "172.17.0.2", 5778) == []


# placement


@pytest.mark.parametrize(
    ("placement", "cpus", "expected"),
    [
        ("apart", 2, (0, 1)),
        ("together", 1, (0, 0)),
        ("free", 1, (None, None)),
    ],
)
def test_placement(placement: str, cpus: int, expected: tuple[int | None, int | None]) -> None:
    ranks = net_peer.ranks(placement, cpus)
    assert (ranks["client"], ranks["server"]) == expected


def test_apart_needs_two_cpus() -> None:
    with pytest.raises(
        net_peer.PlacementError,
        match="placement: apart needs two CPUs, this run may use 1; use placement=together",
    ):
        net_peer.ranks("apart", 1)


# a server


class Child(net_peer.Server):
    """A server whose child is a line of shell."""

    def __init__(self, folder: Path, script: str) -> None:
        (folder / "child").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "child").chmod(0o755)
        super().__init__(request(folder, "net-latency", SERVER), [str(folder / "child")], [])

    def facts(self, printed: Any) -> dict[str, Any]:
        return dict(printed)


def served(child: Child) -> tuple[list[str], dict[str, Any]]:
    assert list(child.steps(0)) == [None]
    return tuple(child.check())  # type: ignore[return-value]


def test_a_server_that_ends_by_itself(tmp_path: Path) -> None:
    assert served(Child(tmp_path, """echo '{"messages": 3}'""")) == ([], {"messages": 3})


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo oops >&2; exit 3", "child ended with status 3: oops"),
        ("""echo '{"error": "address in use"}'""", "child ended with status 0: address in use"),
        ("echo nothing", "child ended with status 0: nothing\n"),
        ("kill -9 $$", "child ended with status -9: "),
        ("""echo '{"messages": 3}'; echo odd >&2""", "child ended with status 0: odd"),
    ],
)
def test_a_server_that_ends_badly(tmp_path: Path, script: str, reason: str) -> None:
    assert served(Child(tmp_path, script)) == ([reason], {})


def test_a_server_without_a_client_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_peer, "END_SECONDS", 0.01)
    child = Child(tmp_path, "exec sleep 600")
    reasons, facts = served(child)
    assert reasons == ["child still waited 0.01 s after its client's end: no client was served to the end"]
    assert facts == {}
    assert child.process.returncode == -15


# ping-pong


def result(**changes: Any) -> dict[str, Any]:
    quantiles = {"min": 1e-5, "p50": 2e-5, "p90": 3e-5, "p99": 4e-5, "p999": 5e-5, "max": 6e-5}
    return {
        "role": "client",
        "protocol": "tcp",
        "bytes": 1,
        "bound": True,
        "cpu": 0,
        "local_address": "127.0.0.1",
        "local_port": 40000,
        "remote_address": "127.0.0.1",
        "remote_port": 5777,
        "warm_up_round_trips": 5,
        "clock_granularity_seconds": 2e-8,
        "round_trips": 7,
        "batch_round_trips": [4, 3],
        "batch_median_seconds": [2e-5, 2.5e-5],
        "batch_p99_seconds": [3e-5, 4e-5],
        "quantiles_seconds": quantiles,
        **changes,
    }


def test_a_client_gives_medians_and_tails_of_its_batches(tmp_path: Path) -> None:
    put_result(tmp_path, "pingpong", result())
    task = network.set_up(request(tmp_path, "net-latency", CLIENT, placement="together"))
    assert list(task.steps(0)) == [None]
    assert (tmp_path / "arguments").read_text() == (
        "--role client --protocol tcp --bytes 1 --cpu 0 "
        "--local 127.0.0.1 --address 127.0.0.1 --port 5777 --seconds 2\n"
    )
    assert [(s["metric"], s["index"], s["value"], s["unit"]) for s in task.samples()] == [
        ("round_trip_seconds", 0, 2e-5, "s"),
        ("round_trip_seconds", 1, 2.5e-5, "s"),
        ("round_trip_p99_seconds", 0, 3e-5, "s"),
        ("round_trip_p99_seconds", 1, 4e-5, "s"),
    ]
    check = task.check()
    assert check.reasons == []
    assert check.facts["work"] == {"protocol": "tcp", "bytes": 1, "bound": True, "placement": "together"}
    assert check.facts["quantiles_seconds"]["p999"] == 5e-5
    assert "batch_median_seconds" not in check.facts
    assert task.software()["pingpong"]["program"] == "pingpong"
    assert parity_fields.rule_of("check.work.bytes").kind == parity_fields.REQUIRED


def test_the_congestion_control_is_part_of_a_tcp_run(tmp_path: Path) -> None:
    (tmp_path / "control").write_text("cubic\n")
    assert pingpong.kernel("tcp", str(tmp_path / "control")) == {"tcp_congestion": "cubic"}
    assert pingpong.kernel("tcp", str(tmp_path / "absent")) == {"tcp_congestion": None}
    assert pingpong.kernel("udp") == {}


def test_the_scheduler_is_left_alone_where_asked(tmp_path: Path) -> None:
    put_result(tmp_path, "pingpong", result())
    task = network.set_up(request(tmp_path, "net-latency", CLIENT, placement="free"))
    list(task.steps(0))
    assert "--cpu" not in (tmp_path / "arguments").read_text()


TOLD = {"local": "127.0.0.1", "address": "127.0.0.1"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"quantiles_seconds": {"min": 0.0, "p50": 2e-5}},
            "a round trip took 0.0 s: a latency of 0 is a fault of the clock",
        ),
        (
            {"quantiles_seconds": {"min": 1e-7, "p50": 1.9e-7}},
            "the median round trip of 1.9e-07 s is less than 10 steps of the clock (2e-08 s each); "
            "use a finer clock source or a larger message",
        ),
        ({"local_address": "10.0.0.1"}, "local_address is 10.0.0.1, asked for was 127.0.0.1"),
        ({"remote_address": "10.0.0.2"}, "remote_address is 10.0.0.2, asked for was 127.0.0.1"),
    ],
)
def test_what_is_no_round_trip(changes: dict[str, Any], reason: str) -> None:
    assert pingpong.reasons(result(**changes), TOLD) == [reason]


# iperf3


@pytest.fixture
def said() -> dict[str, Any]:
    """What iperf3 3.12 said about two streams over loopback for two seconds, after one of warm-up."""
    found: dict[str, Any] = json.loads((DATA / "iperf3-3.12.json").read_text())
    return found


ASKED = {
    "seconds": 2,
    "streams": 2,
    "bytes": 131072,
    "local": "127.0.0.1",
    "address": "127.0.0.1",
    "port": 5777,
    "version": "iperf 3.12",
}
LIMIT = 1e10


def test_rates_are_the_servers_after_the_warm_up(said: dict[str, Any]) -> None:
    rates = iperf3_output.rates(said)
    assert len(rates) == 20
    assert len(said["server_output_json"]["intervals"]) == 30
    assert rates[5] == pytest.approx(162594763 / 0.09999900311231613, rel=1e-12)
    total = said["end"]["sum_received"]["bits_per_second"] / 8
    assert sum(rates) / len(rates) == pytest.approx(total, rel=0.02)


def test_a_good_result_has_no_reasons(said: dict[str, Any]) -> None:
    assert iperf3_output.reasons(said, ASKED, LIMIT) == []
    facts = iperf3_output.facts(said)
    assert facts["work"] == {"streams": 2, "bytes": 131072, "seconds": 2, "warm_up_seconds": 1}
    assert facts["retransmits"] == 26
    assert facts["received_bytes"] == 3058368459
    assert facts["connected"] == [
        ["127.0.0.1", 50297, "127.0.0.1", 5777],
        ["127.0.0.1", 54553, "127.0.0.1", 5777],
    ]


def change(said: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(said)
    at: Any = changed
    *parents, last = path.split(".")
    for name in parents:
        at = at[int(name)] if name.isdigit() else at[name]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("error", "unable to connect to server", r"iperf3: unable to connect to server"),
        ("server_output_json", None, r"iperf3's JSON lacks server_output_json.intervals; use iperf3 3.9 or later"),
        ("end.sum_received", None, r"iperf3's JSON lacks end.sum_received; .*"),
        ("server_output_json.error", "broken", r"iperf3's server: broken"),
        ("end.sum_received.seconds", 1.2, r"1.200 s were measured, asked for were 2 s: the machine was halted .*"),
        ("end.sum_received.seconds", 2.3, r"2.300 s were measured, asked for were 2 s: .*"),
        ("start.test_start.blksize", 1024, r"bytes is 1024, asked for was 131072"),
        ("start.test_start.num_streams", 3, r"streams is 3, asked for was 2"),
        ("server_output_json.start.version", "iperf 3.9", r"the ends run different iperf3 versions: iperf 3.12, .*"),
        ("start.version", "iperf 3.9", r"the ends run different iperf3 versions: iperf 3.12, iperf 3.9"),
        ("start.connected", [], r"0 connections were made, asked for were 2"),
        ("start.connected.1.remote_host", "10.0.0.1", r"connected were .* and 10.0.0.1:5777, asked for was .*"),
        ("start.connected.0.remote_port", 1, r"connected were .* and 127.0.0.1:1, asked for was .*"),
        ("server_output_json.intervals", [], r"0 of 0 intervals passed without a byte received; .*"),
        ("server_output_json.intervals.12.sum.bytes", 2 * 10**9, r"1.98e\+10 B/s is more than the memory .*"),
    ],
)  # fmt: skip
def test_what_is_no_throughput(said: dict[str, Any], path: str, value: Any, reason: str) -> None:
    (found,) = iperf3_output.reasons(change(said, path, value), ASKED, LIMIT)
    assert re.fullmatch(reason, found)


def empty(said: dict[str, Any], *numbers: int) -> dict[str, Any]:
    for number in numbers:
        said = change(said, f"server_output_json.intervals.{number}.sum.bytes", 0)
    return said


def test_an_interval_without_a_byte_is_joined_with_the_next(said: dict[str, Any]) -> None:
    changed = empty(said, 12, 13, 29)
    sums = [one["sum"] for one in changed["server_output_json"]["intervals"]]
    whole, joined = iperf3_output.rates(said), iperf3_output.rates(changed)
    assert len(joined) == 17
    assert joined[2] == pytest.approx(
        sums[14]["bytes"] / sum(one["seconds"] for one in sums[12:15]), rel=1e-12
    )
    assert (joined[:2], joined[3:16]) == (whole[:2], whole[5:18])
    assert joined[16] == pytest.approx(
        sums[28]["bytes"] / sum(one["seconds"] for one in sums[28:]), rel=1e-12
    )
    assert iperf3_output.reasons(changed, ASKED, LIMIT) == []
    assert iperf3_output.facts(changed)["empty_intervals"] == 3


def test_half_of_the_intervals_without_a_byte_are_no_measurement(said: dict[str, Any]) -> None:
    assert iperf3_output.reasons(empty(said, *range(20, 29)), ASKED, LIMIT) == []
    assert iperf3_output.reasons(empty(said, *range(20, 30)), ASKED, LIMIT) == [
        "10 of 20 intervals passed without a byte received; measure on a quiet machine"
    ]


def test_a_stub_of_an_interval_is_no_sample(said: dict[str, Any]) -> None:
    changed = change(said, "server_output_json.intervals.29.sum.seconds", 0.04)
    assert len(iperf3_output.rates(changed)) == 19


def test_facts_of_an_error_are_what_there_is() -> None:
    facts = iperf3_output.facts({"start": {"connected": []}, "error": "unable to connect"})
    assert facts["connected"] == []
    assert facts["work"]["bytes"] is None


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """``tool(script)``: an iperf3 that answers --version and is a shell script otherwise."""

    def make(script: str) -> Path:
        path = tmp_path / "bin" / "iperf3"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"#!/bin/sh\nif [ $1 = --version ]; then echo iperf 3.12 '(cJSON)'; exit; fi\n{script}\n"
        )
        path.chmod(0o755)
        return path

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(iperf3, "COPY_BYTES", 2**20)
    return make


def test_the_client_says_what_it_wants_in_numbers(tmp_path: Path, tool: Callable[[str], Path]) -> None:
    path = tool(f"cat {DATA / 'iperf3-3.12.json'}")
    task = network.set_up(request(tmp_path, "net-tcp", CLIENT, streams=2, placement="together"))
    first = min(os.sched_getaffinity(0))
    assert isinstance(task, iperf3.Iperf3)
    assert (
        task.words
        == (
            f"{path} --client 127.0.0.1 --port 5777 --bind 127.0.0.1 --json --get-server-output --time 2 --omit 1 "
            f"--interval 0.1 --parallel 2 --length 131072 --connect-timeout 5000 --affinity {first},{first}"
        ).split()
    )
    task.copy_rate = LIMIT
    list(task.steps(0))
    assert len(task.samples()) == 20
    check = task.check()
    assert check.reasons == []
    assert check.facts["work"]["placement"] == "together"
    assert task.software()["iperf3"] == "iperf 3.12"
    assert task.software()["tcp_congestion"] == ["bbr", "bbr"]


def test_the_scheduler_places_iperf3_where_asked(tmp_path: Path, tool: Callable[[str], Path]) -> None:
    tool("exit 1")
    words = iperf3.client_command(request(tmp_path, "net-tcp", CLIENT, placement="free"), "127.0.0.1")
    assert "--affinity" not in words


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no route >&2; exit 1", "iperf3: no JSON, status 1: no route"),
        ("""echo '{"start": {}, "end": {}, "error": "unable to connect"}'""", "iperf3: unable to connect"),
    ],
)
def test_a_client_that_fails(tmp_path: Path, tool: Callable[[str], Path], script: str, reason: str) -> None:
    tool(script)
    task = network.set_up(request(tmp_path, "net-tcp", CLIENT, placement="together"))
    list(task.steps(0))
    assert task.samples() == []
    assert task.check().reasons == [reason]


def test_a_server_that_does_not_listen_is_tried_again_and_given_up(
    tmp_path: Path, tool: Callable[[str], Path]
) -> None:
    tool(f"echo x >> {tmp_path}/tries; echo address in use >&2; exit 1")
    with pytest.raises(
        iperf3.Iperf3Error, match=r"iperf3 does not listen at 127\.0\.0\.1 after 5 attempts: address in use"
    ):
        network.set_up(request(tmp_path, "net-tcp", SERVER))
    assert (tmp_path / "tries").read_text() == "x\n" * 5
    assert not (tmp_path / net_peer.ADDRESS).exists()


def test_an_iperf3_that_is_none_is_named(tool: Callable[[str], Path]) -> None:
    tool("").write_text("#!/bin/sh\necho development build\n")
    with pytest.raises(iperf3.Iperf3Error, match=r"iperf3 --version says b'development build"):
        iperf3.version()


def test_copying_is_measured_on_memory_that_was_written() -> None:
    begun = time.perf_counter()
    rate = iperf3.copy_rate()
    took = time.perf_counter() - begun
    assert rate > iperf3.COPY_BYTES / took


def test_where_a_server_is_reached_is_written_whole(tmp_path: Path) -> None:
    published = {"address": "127.0.0.1", "port": 1}
    net_peer.publish(str(tmp_path), published)
    assert json.loads((tmp_path / "address.json").read_text()) == published
    assert [path.name for path in tmp_path.iterdir()] == ["address.json"]


# the program itself


Ends = Callable[..., tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture
def ends(tmp_path: Path, native_program: Callable[[str], Path]) -> Ends:
    """``ends(**factors)``: what both ends of a short real ping-pong printed, client and server."""

    def play(**factors: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        put_program(tmp_path, native_program("pingpong"))
        factors = {"placement": "together", "seconds": 1, **factors}
        server = network.set_up(request(tmp_path, "net-latency", SERVER, **factors))
        reached = json.loads((tmp_path / "address.json").read_text())
        client = network.set_up(request(tmp_path, "net-latency", {**CLIENT, **reached}, **factors))
        assert isinstance(client, pingpong.PingPong)
        client.told.update(seconds=0.05, batch_seconds=0.01, warm_up_seconds=0.01)
        for task in (client, server):
            assert list(task.steps(0)) == [None]
            assert task.check().reasons == []
        return client.result, server.check().facts

    return play


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("size", [1, 65507])
def test_both_ends_count_the_same_messages(ends: Ends, protocol: str, size: int) -> None:
    client, server = ends(protocol=protocol, bytes=size)
    assert server["messages"] == client["round_trips"] + client["warm_up_round_trips"]
    assert (server["remote_port"], server["local_port"]) == (client["local_port"], client["remote_port"])
    assert client["round_trips"] == sum(client["batch_round_trips"])
    assert len(client["batch_median_seconds"]) == len(client["batch_p99_seconds"]) == 5
    assert list(client["quantiles_seconds"].values()) == sorted(client["quantiles_seconds"].values())
    assert client["quantiles_seconds"]["min"] > 0
    for median, tail in zip(client["batch_median_seconds"], client["batch_p99_seconds"], strict=True):
        assert client["quantiles_seconds"]["min"] <= median <= tail <= client["quantiles_seconds"]["max"]
    assert client["bound"] is True
    assert client["cpu"] == server["cpu"] == min(os.sched_getaffinity(0))


def test_nobody_at_the_other_end_is_said_at_once(
    tmp_path: Path, native_program: Callable[[str], Path]
) -> None:
    put_program(tmp_path, native_program("pingpong"))
    port = net_address.free_port("127.0.0.1")
    task = network.set_up(request(tmp_path, "net-latency", {**CLIENT, "port": port}, placement="together"))
    with pytest.raises(
        native.NativeError,
        match=rf"pingpong ended with status 1: 127\.0\.0\.1 port {port} cannot be reached from 127\.0\.0\.1: ",
    ):
        list(task.steps(0))


BASE = ("--role", "client", "--local", "127.0.0.1", "--address", "127.0.0.1", "--port", "9")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "--role is missing; allowed: client, server\n"),
        (("--role", "client"), 2, "a client needs --local, --address and --port\n"),
        (("--role", "server"), 2, "a server needs --socket\n"),
        (
            ("--role", "server", "--protocol", "udp", "--bytes", "65508"),
            2,
            "--bytes: 65508 do not fit into a datagram; allowed with udp: 1 to 65507\n",
        ),
        (
            ("--role", "client", "--local", "localhost", "--address", "127.0.0.1", "--port", "9"),
            2,
            '--local: "localhost" is no numeric IPv4 address; names are not looked up\n',
        ),
        (
            (*BASE, "--cpu", "8000"),
            1,
            f"--cpu: rank 8000 is asked for, {len(os.sched_getaffinity(0))} CPUs may be used; "
            "place both ends on one CPU\n",
        ),
        (("--role", "server", "--socket", "77"), 1, "no client came: Bad file descriptor\n"),
    ],
)
def test_wrong_arguments_print_no_number(
    native_program: Callable[[str], Path], words: tuple[str, ...], status: int, message: str
) -> None:
    assert said_by(native_program("pingpong"), *words) == (status, "", message)
