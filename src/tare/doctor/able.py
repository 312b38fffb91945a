"""What can be measured here: each runtime, each form of software, a cold cache, a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from tare.doctor import gpu
from tare.doctor.machine import OK, Finding, Machine, ability


def runtimes(machine: Machine) -> Iterator[Finding]:
    """Yield one finding for each runtime."""
    python, hpc = machine.capability("host_python"), machine.capability("hpc_host")
    yield ability("runtime host (torch)", python.ok, python.why, "the locks' Python with venv", python.remedy)
    yield ability(
        "runtime host (hpc)", hpc.ok, hpc.why, "hpcc, OpenBLAS, Open MPI, ioping, fio, iperf3", hpc.remedy
    )
    for runtime, name in (("chroot", "chroot"), ("chroot-userns", "userns")):
        able = machine.capability(name)
        yield ability(f"runtime {runtime}", able.ok, able.why, "allowed", able.remedy)
    yield crun(machine)
    yield docker(machine)


def crun(machine: Machine) -> Finding:
    """Return whether the rungs between chroot and docker can be used: root, crun, and the engine they are asked of."""
    lacking = [able for able in map(machine.capability, ("chroot", "crun", "engine")) if not able.ok]
    value = "; ".join(able.why for able in lacking) or machine.capability("crun").why
    remedy = "; ".join(able.remedy for able in lacking)
    return ability("runtime crun", not lacking, value, "root, crun, an engine", remedy)


def docker(machine: Machine) -> Finding:
    """Return whether docker, docker-pure and docker-hardened can be used; they need the same of the machine."""
    info, able = machine.engine_info, machine.capability("engine")
    value = able.why
    if machine.engine.answers and info:
        cgroups = f"cgroup v{info.get('CgroupVersion', '?')}"
        value = f"engine {info.get('ServerVersion', '?')}, storage {info.get('Driver', '?')}, {cgroups}"
    good = "an engine of this machine answers"
    return ability("runtimes docker, -pure, -hardened", able.ok, value, good, able.remedy)


def bootstrap(machine: Machine) -> Finding:
    """Return whether the images' Debian can be bootstrapped here."""
    needed = ["mmdebstrap"] if machine.capability("root").ok else ["mmdebstrap", "userns", "subids"]
    lacking = [able for able in map(machine.capability, needed) if not able.ok]
    value = "; ".join(able.why for able in lacking) or f"{', '.join(needed)}: there"
    remedy = "; ".join(able.remedy for able in lacking) + "; or software.base.source: registry"
    return ability("image and root filesystem", not lacking, value, "Debian can be bootstrapped", remedy)


def cold_cache(machine: Machine) -> Finding:
    """Return how a cold page cache can be had and proved."""
    drop = machine.capability("drop_caches")
    ways = ["drop_caches"] if drop.ok else []
    ways += ["posix_fadvise, proved by mincore"] if machine.fadvise_evicts else []
    value = " and ".join(ways) or "no way to evict a file was proved here"
    remedy = "put the checkout on a local disk of your own; else cold runs are labelled unverified"
    return ability(
        "cold page cache", bool(machine.fadvise_evicts or drop.ok), value, "eviction, proved", remedy
    )


def able(machine: Machine) -> list[Finding]:
    """Return every finding on what can be measured."""
    return [*runtimes(machine), bootstrap(machine), cold_cache(machine), *gpu.able(machine)]


def nothing(findings: list[Finding]) -> bool:
    """Return whether no runtime at all is usable."""
    return not any(each.level == OK for each in findings if each.check.startswith("runtime"))
