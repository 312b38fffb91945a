"""A run that is served by a peer, played by functions: order, addresses, failures of either, what counts as whose."""

# ruff: noqa: F401, F811 (bench is a fixture: imported, and named again by who uses it)
from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from scripted_runtime import QUIET, REQUESTED, SECOND, Played, Script, events
from test_measure import Bench, bench

from tare import peer
from tare.events import Events
from tare.runtimes.base import LaunchSpec, Outcome, RunRequest, Stack

ADDRESS = {"address": "10.0.0.2", "port": 5777, "version": "1"}
FACTORS = {"bytes": 1, "protocol": "tcp", "seconds": 1, "placement": "free"}
SAMPLE = {"metric": "round_trip_seconds", "phase": "steady", "epoch": None, "value": 1e-5, "unit": "s"}
Row = dict[str, Any]


def counters(**grown: float) -> dict[str, float]:
    return {name: value + grown.get(name, 0.0) for name, value in {**QUIET, "softirq_seconds": 3.0}.items()}


def told(check: Mapping[str, Any] | None = None, **grown: float) -> list[Mapping[str, Any]]:
    """The events of either end: no epochs, its own check and growth of counters over 10 seconds."""
    kept = [event for event in events() if event["event"] not in ("sample", "check", "end", "ready")]
    return [
        *kept,
        {"event": "ready", "ns": REQUESTED + SECOND, "counters": counters()},
        {"event": "sample", "index": 0, **SAMPLE},
        {"event": "check", "ok": True, "reasons": [], "facts": {}, **(check or {})},
        {"event": "end", "ns": REQUESTED + 11 * SECOND, "counters": counters(**grown), "cpu_seconds": 4.5},
    ]


def both(server: Script, client: Script) -> Script:
    """Play the part that the request names."""

    def script(played: Played) -> Outcome | None:
        return (server if played.request["peer"]["role"] == "server" else client)(played)

    return script


def serves(*log: list[str], address: Any = ADDRESS, **said: Any) -> Script:
    def script(played: Played) -> None:
        for lines in log:
            lines.append("server listens")
        (played.folder / "address.json").write_text(json.dumps(address))
        played.shake_hands()
        for lines in log:
            lines.append("server ends")
        played.write(told(**said))

    return script


def asks(*log: list[str], **said: Any) -> Script:
    def script(played: Played) -> None:
        for lines in log:
            lines.append(f"client asks {sorted(played.request['peer'].items())}")
        played.write(told(**said))

    return script


def dies(played: Played) -> Outcome:
    (played.folder / "stderr.txt").write_text("no socket\n")
    return Outcome(1, 0, 10, "ended with status 1")


Measure = Callable[..., list[Row]]


@pytest.fixture
def measure(bench: Bench) -> Measure:
    """``measure(server, client)``: the rows of one block of net-latency, whose docker plays both parts."""

    def run(server: Script, client: Script, **changes: Any) -> list[Row]:
        bench.docker.scripts = [both(server, client)]
        rows = bench.measure(
            **{
                "workload": "net-latency",
                "factors": FACTORS,
                "runtimes": ("docker",),
                "control": "docker",
                "max_attempts": 1,
                "dataset": None,
                **changes,
            }
        )
        assert list(bench.scratch.iterdir()) == []
        return rows

    return run


def test_the_server_listens_before_the_client_asks_and_ends_after_it(measure: Measure, bench: Bench) -> None:
    log: list[str] = []
    rows = measure(serves(log), asks(log))
    given = {"role": "client", "bind": "loopback", **ADDRESS}
    assert log == ["server listens", f"client asks {sorted(given.items())}", "server ends"] * 2
    for row in rows:
        assert (row["status"], row["reasons"], row["flags"]) == ("ok", [], [])
        assert [sample["value"] for sample in row["samples"]] == [1e-5]
        told_of_peer = json.loads(row["fingerprint"])["peer"]
        assert told_of_peer == {
            "software": {"torch": "1"},
            "check": {},
            "cpu_seconds": 4.5,
            "max_rss_bytes": None,
        }
    ids = [request.environment["TARE_RUN_ID"] for request in bench.docker.requests]
    assert ids == [name for row in rows for name in (f"{row['run_id']}-peer", row["run_id"])]
    assert len({request.environment["TARE_OWNER"] for request in bench.docker.requests}) == 1


def test_the_peers_request_is_the_clients_but_for_what_is_its_own(measure: Measure) -> None:
    seen: dict[str, dict[str, Any]] = {}

    def keep(played: Played) -> None:
        seen[played.request["peer"]["role"]] = played.request

    def server(played: Played) -> None:
        keep(played)
        serves()(played)

    def client(played: Played) -> None:
        keep(played)
        asks()(played)

    measure(server, client)
    changed = {name for name in seen["client"] if seen["client"][name] != seen["server"][name]}
    assert changed == {"run_id", "output", "files", "peer", "handshake"}
    assert seen["server"]["peer"] == {"role": "server", "bind": "loopback"}
    assert (seen["server"]["handshake"], seen["client"]["handshake"]) == (True, False)
    assert seen["server"]["output"].endswith("-peer")


def test_a_server_that_does_not_start_is_the_reason_and_no_client_is_started(
    measure: Measure,
    bench: Bench,
) -> None:
    def never(_: Played) -> None:
        pytest.fail("the client was started")

    rows = measure(dies, never)
    assert len(bench.docker.requests) == len(rows) == 2
    for row in rows:
        assert (row["status"], row["samples"]) == ("failed", [])
        assert row["reasons"] == [
            "peer: worker wrote no events: it was killed or never came to its first line",
            "peer: exit status 1 (ended with status 1); last words: no socket",
        ]
        kept = bench.logs / f"1-{row['position']}-docker"
        assert (kept / "peer/stderr.txt").read_text() == "no socket\n"


def test_a_server_that_never_gets_ready_is_ended(measure: Measure) -> None:
    def hangs(played: Played) -> Outcome:
        assert played.killed.wait(20)
        return Outcome(137, 0, 1, "ended by SIGKILL")

    (row, _) = measure(hangs, asks(), timeout_seconds=0.1)
    assert row["status"] == "failed"
    assert "peer: time-out: the run was ended by Tare (run_timeout_seconds)" in row["reasons"]


@pytest.mark.parametrize("address", [{"port": 1}, [], "127.0.0.1"])
def test_a_server_that_does_not_say_where_it_is(measure: Measure, address: Any) -> None:
    def server(played: Played) -> Outcome:
        (played.folder / "address.json").write_text(json.dumps(address))
        (played.folder / "ready").write_text("ready\n")
        assert played.killed.wait(20)
        return Outcome(137, 0, 1)

    (row, _) = measure(server, asks())
    assert row["status"] == "failed"
    assert row["reasons"] == [f"peer: its address.json names no address and port: {address}"]


def test_a_server_without_an_address_file(measure: Measure) -> None:
    def server(played: Played) -> Outcome:
        (played.folder / "ready").write_text("ready\n")
        assert played.killed.wait(20)
        return Outcome(137, 0, 1)

    (row, _) = measure(server, asks())
    assert row["status"] == "failed"
    assert row["reasons"][0].startswith("peer: ready, but its address.json cannot be read: [Errno 2]")


def test_a_server_that_finds_its_own_work_invalid_makes_the_run_so(measure: Measure) -> None:
    (row, _) = measure(serves(check={"ok": False, "reasons": ["no client was served"]}), asks())
    assert (row["status"], row["reasons"], row["samples"]) == ("invalid", ["peer: no client was served"], [])


def test_a_server_that_dies_while_it_serves_fails_the_run(measure: Measure) -> None:
    def server(played: Played) -> Outcome:
        (played.folder / "address.json").write_text(json.dumps(ADDRESS))
        played.shake_hands()
        return dies(played)

    (row, _) = measure(server, asks(check={"ok": False, "reasons": ["connection reset"]}))
    assert row["status"] == "failed"
    assert row["reasons"][0] == "connection reset"
    assert row["reasons"][-1] == "peer: exit status 1 (ended with status 1); last words: no socket"


def test_a_client_that_fails_ends_its_server(measure: Measure) -> None:
    log: list[str] = []
    (row, _) = measure(serves(log), dies)
    assert row["status"] == "failed"
    assert row["reasons"][-1] == "exit status 1 (ended with status 1); last words: no socket"
    assert log == ["server listens", "server ends"] * 2


def test_a_client_that_cannot_be_started_ends_its_server(
    measure: Measure,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = bench.docker.start

    def refuse(spec: LaunchSpec) -> Any:
        if not spec.output.endswith("-peer"):
            raise OSError("no more processes")
        return start(spec)

    def server(played: Played) -> Outcome:
        (played.folder / "address.json").write_text(json.dumps(ADDRESS))
        (played.folder / "ready").write_text("ready\n")
        assert played.killed.wait(20)
        return Outcome(137, 0, 1)

    monkeypatch.setattr(bench.docker, "start", refuse)
    (row, _) = measure(server, asks())
    assert (row["status"], row["reasons"]) == ("failed", ["harness: OSError: no more processes"])


def test_a_runtime_without_a_network_is_skipped_before_anything_starts(
    measure: Measure,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    specify = bench.docker.specify
    monkeypatch.setattr(
        bench.docker, "specify", lambda request: dataclasses.replace(specify(request), network="none")
    )
    (row, _) = measure(serves(), asks())
    assert (row["status"], row["reasons"]) == (
        "skipped",
        [
            "docker: there is no network between two runs of this runtime; leave it out of this cell's `runtimes:`"
        ],
    )
    assert bench.docker.requests == []
    assert not bench.logs.exists()


#: 2 CPUs for 10 s, of which the client used 4, the server 5 and soft interrupts 1
CLIENT_USED = {"busy_seconds": 11.0, "own_cpu_seconds": 4.0, "softirq_seconds": 1.0}


@pytest.mark.parametrize(
    ("server", "client", "flag"),
    [
        ({"own_cpu_seconds": 5.0}, CLIENT_USED, None),
        (
            {"own_cpu_seconds": 1.0},
            CLIENT_USED,
            "disturbed: other processes used 25% of the CPU time (limit 10%)",
        ),
        ({}, CLIENT_USED, "disturbed: other processes used 30% of the CPU time (limit 10%)"),
    ],
)
def test_the_cpu_time_of_peer_and_packets_is_not_other_processes(
    measure: Measure, server: dict[str, float], client: dict[str, float], flag: str | None
) -> None:
    (row, _) = measure(serves(**server), asks(**client))
    assert row["status"] == "ok"
    assert [text.split(";")[0] for text in row["flags"]] == ([] if flag is None else [flag])


def test_without_a_peer_nothing_is_beside_the_run() -> None:
    request = RunRequest(
        "r", "s", Stack("hpc"), Path("/out/r"), None, "w", {"TARE_RUN_ID": "r", "A": "1"}, 0, 0, "o"
    )
    beside = peer.of(request)
    assert (beside.run_id, beside.output, beside.role) == ("r-peer", Path("/out/r-peer"), "server")
    assert beside.environment == {"TARE_RUN_ID": "r-peer", "A": "1"}
    assert (
        dataclasses.replace(
            beside, run_id="r", output=request.output, environment=request.environment, role=None
        )
        == request
    )
    assert peer.Peer(Events(), True, ()).facts()["cpu_seconds"] is None
