"""The overlay between two namespaces as data: names, commands, what is ours; and the runtime on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare import runtimes
from tare.identity import owner_id
from tare.runtimes import overlay_network
from tare.runtimes.base import LaunchError, RunRequest, Stack
from tare.variants import Variant

OWNER = "0123456789abcdef:77:1234"
VXLAN = Variant(base="host", label="VXLAN overlay", network="vxlan")


@pytest.mark.parametrize("owner", [OWNER, "0123456789abcdef.4026532001:77:1234"])
@pytest.mark.parametrize("node", overlay_network.NODES)
def test_a_name_tells_its_owner(owner: str, node: str) -> None:
    name = overlay_network.name(owner, node)
    assert name.startswith("tare-")
    assert overlay_network.owner_of(name) == owner


@pytest.mark.parametrize(
    "name", ["tare", "tare-x-1-2-server", "tare-ab-1-2", "cni-ab-1-2-server", "tare-ab-1-2-other"]
)
def test_names_of_others_have_no_owner(name: str) -> None:
    assert overlay_network.owner_of(name) is None


def test_everything_is_made_inside_the_two_namespaces() -> None:
    server, client = (overlay_network.name(OWNER, node) for node in overlay_network.NODES)
    commands = overlay_network.commands(OWNER)
    assert [" ".join(words) for words in commands] == [
        f"netns add {server}",
        f"netns add {client}",
        f"link add wire mtu 1500 netns {server} type veth peer name wire mtu 1500 netns {client}",
        f"-netns {server} link set lo up",
        f"-netns {server} address add 198.18.0.1/30 dev wire",
        f"-netns {server} link set wire up",
        f"-netns {server} link add overlay mtu 1450 type vxlan id 1 local 198.18.0.1 remote 198.18.0.2 dev wire "
        "dstport 8472 nolearning",
        f"-netns {server} address add 198.18.1.1/30 dev overlay",
        f"-netns {server} link set overlay up",
        f"-netns {client} link set lo up",
        f"-netns {client} address add 198.18.0.2/30 dev wire",
        f"-netns {client} link set wire up",
        f"-netns {client} link add overlay mtu 1450 type vxlan id 1 local 198.18.0.2 remote 198.18.0.1 dev wire "
        "dstport 8472 nolearning",
        f"-netns {client} address add 198.18.1.2/30 dev overlay",
        f"-netns {client} link set overlay up",
    ]


def a_request(role: str | None) -> RunRequest:
    return RunRequest(
        run_id="r",
        study="s",
        stack=Stack("hpc", host_python="/usr/bin/python3"),
        output=Path("/out/r"),
        data=None,
        worker_wheel="w.whl",
        environment={"TARE_RUN_ID": "r", "TARE_OWNER": OWNER},
        uid=0,
        gid=0,
        owner=OWNER,
        role=role,
    )


@pytest.mark.parametrize(
    ("role", "node", "makes"),
    [("server", "server", True), ("client", "client", False), (None, "client", True)],
)
def test_each_role_is_on_its_node(role: str | None, node: str, makes: bool) -> None:
    runtime = runtimes.make("host-vxlan", VXLAN)
    spec, plain = runtime.specify(a_request(role)), runtimes.get("host").specify(a_request(role))
    assert (spec.runtime, spec.kind, spec.network) == ("host-vxlan", "process", "interface:overlay")
    assert spec.options == {**plain.options, "node": node, "makes_nodes": makes}
    assert (spec.argv, spec.environment, spec.output) == (plain.argv, plain.environment, plain.output)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What `ip` is called with; a command that names `veth` fails, a namespace added is a file."""
    made: list[list[str]] = []
    monkeypatch.setattr(overlay_network, "FOLDER", tmp_path)

    def ip(arguments: list[str]) -> None:
        made.append(arguments)
        if arguments[:2] == ["netns", "add"]:
            (tmp_path / arguments[2]).touch()
        if arguments[:2] == ["netns", "delete"]:
            (tmp_path / arguments[2]).unlink()
        if "veth" in arguments:
            raise overlay_network.NetworkError("ip link add: Operation not supported")

    monkeypatch.setattr(overlay_network, "_ip", ip)
    return made


def test_a_network_that_cannot_be_made_is_a_launch_that_failed_and_leaves_nothing(
    calls: list[list[str]], tmp_path: Path
) -> None:
    runtime = runtimes.make("host-vxlan", VXLAN)
    with pytest.raises(LaunchError, match=r"^host-vxlan: ip link add: Operation not supported$"):
        runtime.start(runtime.specify(a_request("server")))
    assert [words[:2] for words in calls[-2:]] == [["netns", "delete"]] * 2
    assert list(tmp_path.iterdir()) == []


def test_the_sweep_takes_what_is_of_the_dead_and_nothing_else(
    calls: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = owner_id().rpartition(":")[0].rpartition(":")[0]
    dead = overlay_network.name(f"{host}:{2**22 + 1}:5", "server")
    others = [
        overlay_network.name(owner_id(), "server"),
        overlay_network.name(OWNER, "client"),
        "tare-notes",
        "cni-1",
    ]
    for name in (dead, *others):
        (tmp_path / name).touch()
    monkeypatch.setattr(overlay_network.os, "geteuid", lambda: 1000)
    assert overlay_network.sweep() == []
    assert calls == []
    monkeypatch.setattr(overlay_network.os, "geteuid", lambda: 0)
    assert overlay_network.sweep() == [f"network namespace {dead}"]
    assert calls == [["netns", "delete", dead]]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_what_is_lacking_is_named_with_its_remedy(
    calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay_network.os, "geteuid", lambda: 1000)
    assert overlay_network.obstacle() == (
        "network namespaces joined by a VXLAN need root",
        "run as root",
    )
    monkeypatch.setattr(overlay_network.os, "geteuid", lambda: 0)
    monkeypatch.setattr(overlay_network, "_program", lambda: None)
    assert overlay_network.obstacle() == ("ip (iproute2) is not installed", "apt-get install iproute2")
    assert calls == []
    monkeypatch.setattr(overlay_network, "_program", lambda: "/sbin/ip")
    why, remedy = overlay_network.obstacle() or ("", "")
    assert (
        why == "a VXLAN between two network namespaces cannot be made: ip link add: Operation not supported"
    )
    assert "modprobe vxlan veth" in remedy
