"""Facts of a node, read from recorded trees; the ids made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare import node
from tare.node import MACHINE_FACTS, gpus, hardware, machine_id, memory_class, settings

CPU = """\
processor\t: {number}
model name\t: Example CPU @ 2 GHz
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu vme {flags}
"""


def cpuinfo(topology: list[tuple[int, int]], flags: str = "") -> str:
    return (
        "\n".join(CPU.format(number=n, socket=s, core=c, flags=flags) for n, (s, c) in enumerate(topology))
        + "\n"
    )


def plant(root: Path, **files: str) -> Path:
    """Write ``files`` (a path with __ for /) under ``root``."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("topology", "cores", "smt"),
    [
        ([(0, 0), (0, 1)], 2, False),
        ([(0, 0), (0, 1), (0, 0), (0, 1)], 2, True),
        ([(0, 0), (1, 0)], 2, False),
    ],
)
def test_cores_and_smt(tmp_path: Path, topology: list[tuple[int, int]], cores: int, smt: bool) -> None:
    facts = hardware(
        plant(tmp_path, proc__cpuinfo=cpuinfo(topology), proc__meminfo="MemTotal: 24684092 kB\n")
    )
    assert (facts["cpu_model"], facts["cores"], facts["logical_cpus"], facts["smt"]) == (
        "Example CPU @ 2 GHz",
        cores,
        len(topology),
        smt,
    )
    assert (facts["memory_bytes"], facts["memory_class"]) == (24684092 * 1024, "24 GiB")
    assert facts["virtualisation"] == "none"


def test_cpus_without_topology_count_as_cores(tmp_path: Path) -> None:
    facts = hardware(plant(tmp_path, proc__cpuinfo="processor : 0\n\nprocessor : 1\n\nHardware : board\n"))
    assert (facts["cores"], facts["logical_cpus"], facts["cpu_model"]) == (2, 2, None)


def test_hypervisor_is_named(tmp_path: Path) -> None:
    root = plant(tmp_path, proc__cpuinfo=cpuinfo([(0, 0)], "hypervisor"))
    assert hardware(root)["virtualisation"] == "unnamed hypervisor"
    plant(root, sys__class__dmi__id__sys_vendor="QEMU\n", sys__class__dmi__id__product_name="Standard PC\n")
    assert hardware(root)["virtualisation"] == "QEMU Standard PC"


def test_machine_that_tells_nothing(tmp_path: Path) -> None:
    facts = {**hardware(tmp_path), **settings(tmp_path)}
    facts.pop("architecture")
    told = {name: value for name, value in facts.items() if value is not None}
    assert told == {"gpus": [], "cgroup_version": 1, "mitigations": {}, "bridge_up": False}
    assert len(machine_id(facts)) == 16


@pytest.mark.parametrize(
    ("gib", "expected"),
    [
        (0.4, "0.5 GiB"),
        (0.97, "1 GiB"),
        (23.5, "24 GiB"),
        (24.1, "24 GiB"),
        (31.2, "32 GiB"),
        (503, "512 GiB"),
        (25, "32 GiB"),
    ],
)
def test_memory_class(gib: float, expected: str) -> None:
    assert memory_class(int(gib * 1024**3)) == expected


def test_settings(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        proc__sys__kernel__osrelease="6.1.0-13\n",
        proc__meminfo="MemTotal: 1 kB\nSwapTotal:   1024 kB\n",
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="powersave\n",
        sys__devices__system__cpu__cpu1__cpufreq__scaling_governor="performance\n",
        sys__devices__system__cpu__vulnerabilities__spectre_v2="Mitigation: IBRS\n",
        sys__devices__system__clocksource__clocksource0__current_clocksource="tsc\n",
        sys__kernel__mm__transparent_hugepage__enabled="always [madvise] never\n",
        sys__kernel__mm__transparent_hugepage__defrag="always defer [defer+madvise] madvise never\n",
        sys__class__net__docker0__mtu="1500\n",
    )
    plant(root, **{"sys__fs__cgroup__cgroup.controllers": "cpu memory\n"})
    assert settings(root) == {
        "kernel": "6.1.0-13",
        "governor": "performance, powersave",
        "clock_source": "tsc",
        "thp_enabled": "madvise",
        "thp_defrag": "defer+madvise",
        "swap_bytes": 1024**2,
        "cgroup_version": 2,
        "mitigations": {"spectre_v2": "Mitigation: IBRS"},
        "bridge_up": True,
    }


def test_gpus_of_both_makers(tmp_path: Path) -> None:
    folder = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t\t NVIDIA H200\nIRQ: 5\n")
    plant(
        tmp_path,
        sys__class__kfd__kfd__topology__nodes__0__name="\n",
        sys__class__kfd__kfd__topology__nodes__1__name="gfx90a\n",
    )
    assert gpus(tmp_path) == ["NVIDIA H200", "gfx90a"]


def test_machine_id_depends_on_each_of_its_facts_and_no_other() -> None:
    facts = dict.fromkeys(MACHINE_FACTS, "x") | {"swap_bytes": 1, "node": "n"}
    one = machine_id(facts)
    assert all(machine_id({**facts, name: "y"}) != one for name in MACHINE_FACTS)
    assert machine_id({**facts, "swap_bytes": 2, "node": "other"}) == one


def test_node_facts_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    facts = node.node_facts()
    assert (facts["engine_state"], facts["engine_version"]) == ("absent", None)
    assert facts["node"] == node.node_id()
    assert facts["machine_id"] == machine_id(facts)
    assert node.node_facts() == facts
