"""What the processor does on its own: frequency, threads, quota, steal, clock. Nothing is changed."""

from __future__ import annotations

import math

from tare.doctor.machine import Finding, Machine, quiet
from tare.worker.cpus import effective_cpus, quota_cpus

CPU = "/sys/devices/system/cpu"
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
#: load per CPU beyond which other work certainly takes time from a run that wants every CPU
QUIET_LOAD = 0.10
#: share of CPU time stolen since boot beyond which the hypervisor is visibly busy
QUIET_STEAL = 0.01


def governor(machine: Machine) -> Finding:
    """Return the frequency governors in use."""
    found = sorted(set(machine.read_all(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor")))
    remedy = "sudo cpupower frequency-set -g performance (and set it back afterwards; Tare only reads it)"
    fine = None if not found else found == ["performance"]
    return quiet("frequency governor", fine, ", ".join(found) or "not shown", "performance", remedy)


def turbo(machine: Machine) -> Finding:
    """Return whether the processor may exceed its nominal frequency."""
    no_turbo, boost = machine.read(f"{CPU}/intel_pstate/no_turbo"), machine.read(f"{CPU}/cpufreq/boost")
    if no_turbo is None and boost is None:
        return quiet("turbo", None, "not shown", "off", "")
    on = no_turbo == "0" if no_turbo is not None else boost == "1"
    switch = "intel_pstate/no_turbo" if no_turbo is not None else "cpufreq/boost"
    number = 1 if no_turbo is not None else 0
    remedy = f"echo {number} | sudo tee {CPU}/{switch} (and set it back afterwards)"
    return quiet("turbo", not on, "on" if on else "off", "off", remedy)


def smt(machine: Machine) -> Finding:
    """Return whether two hardware threads share a core."""
    active = machine.read(f"{CPU}/smt/active")
    remedy = f"echo off | sudo tee {CPU}/smt/control, or keep sibling threads of one core for one run"
    fine = None if active is None else active == "0"
    return quiet("SMT", fine, {"0": "off", "1": "on", None: "not shown"}.get(active, "?"), "off", remedy)


def cpus(machine: Machine) -> Finding:
    """Return how many CPUs a run really gets: the smaller of affinity and quota."""
    online = count_cpus(machine.read(f"{CPU}/online") or "0")
    quota = quota_cpus(str(machine.root))
    effective = effective_cpus(str(machine.root), machine.affinity)
    limit = "none" if quota is None else f"{quota:g}"
    value = f"{effective} of {online} (affinity {machine.affinity}, quota {limit})"
    remedy = "run it outside the limited group or job, or accept: every runtime uses the same number"
    return quiet("CPUs", quota is None and machine.affinity >= online, value, "all, no quota", remedy)


def count_cpus(ranges: str) -> int:
    """Return the number of CPUs in a kernel list such as ``0-3,8``."""
    pairs = [part.split("-") for part in ranges.split(",") if part]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in pairs)


def load(machine: Machine) -> Finding:
    """Return the load of the last minute and what runs now."""
    fields = (machine.read("/proc/loadavg") or "").split()
    limit = QUIET_LOAD * max(1, count_cpus(machine.read(f"{CPU}/online") or "0"))
    if len(fields) < 4:
        return quiet("load now", None, "not shown", f"below {limit:.1f}", "")
    value = f"{fields[0]} over 1 min, {fields[1]} over 5 min"
    fine = float(fields[0]) < limit
    return quiet("load now", fine, value, f"below {limit:.1f}", "stop other work (top shows it), or wait")


def steal(machine: Machine) -> Finding:
    """Return the share of CPU time the hypervisor took since boot (proc(5), line ``cpu`` of /proc/stat)."""
    fields = (machine.read("/proc/stat") or "").split("\n")[0].split()[1:9]
    if len(fields) < 8 or not sum(map(int, fields)):
        return quiet("stolen CPU time", None, "not shown", f"below {QUIET_STEAL:.0%}", "")
    share = int(fields[7]) / sum(map(int, fields))
    remedy = "a dedicated machine or a dedicated-CPU instance; disturbed runs are flagged and repeated"
    value = f"{share:.2%} since boot"
    return quiet("stolen CPU time", share < QUIET_STEAL, value, f"below {QUIET_STEAL:.0%}", remedy)


def clock(machine: Machine) -> Finding:
    """Return the kernel's clock source."""
    source = machine.read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    remedy = "boot with clocksource=tsc if the processor's is stable; slow clocks cost about 1 µs a reading"
    fine = None if source is None else source not in SLOW_CLOCKS
    return quiet("clock source", fine, source or "not shown", "tsc, or the hypervisor's own", remedy)


def throttling(machine: Machine) -> Finding:
    """Return how often cores were slowed down by heat since boot."""
    counts = machine.read_all(f"{CPU}/cpu[0-9]*/thermal_throttle/core_throttle_count")
    total = sum(int(count) for count in counts if count.isdigit())
    value = f"{total} times since boot" if counts else "not shown"
    remedy = "cool the machine, or lower its power limit, so that the frequency stays the same"
    return quiet("thermal throttling", None if not counts else total == 0, value, "never", remedy)


def power(machine: Machine) -> Finding:
    """Return whether the machine runs on its battery."""
    supplies = sorted(machine.root.glob("sys/class/power_supply/*"))
    states = [machine.read(f"/sys/class/power_supply/{each.name}/status") for each in supplies]
    if not any(states):
        return quiet("battery", None, "none", "mains", "")
    on_battery = "Discharging" in states
    return quiet("battery", not on_battery, "discharging" if on_battery else "mains", "mains", "plug it in")


def pressure(machine: Machine) -> Finding:
    """Return the share of the last ten seconds in which some process waited for a CPU (PSI)."""
    text = machine.read("/proc/pressure/cpu")
    if not text or "avg10=" not in text:
        return quiet("waiting for CPUs", None, "not shown", "below 5 %", "")
    share = float(text.split("avg10=")[1].split()[0])
    fine = math.isfinite(share) and share < 5
    return quiet("waiting for CPUs", fine, f"{share:g} % of the last 10 s", "below 5 %", "stop other work")


def findings(machine: Machine) -> list[Finding]:
    """Return every finding on the processor."""
    checks = (load, pressure, cpus, steal, governor, turbo, smt, clock, throttling, power)
    return [check(machine) for check in checks]
