"""What ``nvidia-smi`` says of the GPUs, as numbers in SI units. Standard library only, Python 3.9.

Fields come and go with the driver: one that it does not know is left out and None here, as is one that it does not
tell (``[N/A]``). The order of GPUs is that of the PCI bus.
"""

from __future__ import annotations

import csv
import re
import subprocess
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

PROGRAM = "nvidia-smi"
SECONDS = 60.0


class SmiError(RuntimeError):
    """nvidia-smi is absent or refuses; the message is what it said."""


class Field(NamedTuple):
    """One thing that is asked for: nvidia-smi's name, ours, and the factor to SI units (None: text)."""

    query: str
    name: str
    factor: Optional[float] = None


MIB, MEGA, MICRO = 2.0**20, 1e6, 1e-6

#: which GPUs there are
IDENTITY = (Field("name", "model"), Field("driver_version", "driver"))
#: what nobody's run changes, only somebody's hand
SETTINGS = (
    *IDENTITY,
    Field("uuid", "uuid"),
    Field("vbios_version", "vbios"),
    Field("memory.total", "memory_bytes", MIB),
    Field("ecc.mode.current", "ecc"),
    Field("persistence_mode", "persistence_mode"),
    Field("compute_mode", "compute_mode"),
    Field("mig.mode.current", "mig"),
    Field("power.limit", "power_limit_watts", 1.0),
    Field("clocks.applications.graphics", "application_clock_hz", MEGA),
    Field("clocks.max.sm", "max_sm_clock_hz", MEGA),
    Field("clocks.max.memory", "max_memory_clock_hz", MEGA),
    Field("pcie.link.gen.max", "max_pcie_generation", 1.0),
    Field("pcie.link.width.max", "max_pcie_lanes", 1.0),
)
_COUNTERS = (
    "sw_power_cap",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)
#: what the moment gives
STATE = (
    Field("pstate", "performance_state"),
    Field("persistence_mode", "persistence_mode"),
    Field("clocks.sm", "sm_clock_hz", MEGA),
    Field("clocks.mem", "memory_clock_hz", MEGA),
    Field("power.draw", "power_watts", 1.0),
    Field("temperature.gpu", "temperature_celsius", 1.0),
    Field("utilization.gpu", "utilisation", 0.01),
    Field("pcie.link.gen.current", "pcie_generation", 1.0),
    Field("pcie.link.width.current", "pcie_lanes", 1.0),
    Field("ecc.errors.uncorrected.volatile.total", "uncorrected_ecc_errors", 1.0),
    Field("clocks_event_reasons.active", "clock_reasons"),
    Field("clocks_throttle_reasons.active", "clock_reasons_old"),  # its name before driver 535
    *(Field("clocks_event_reasons_counters." + name, name + "_seconds", MICRO) for name in _COUNTERS),
)
#: reasons for a lower clock that disturb a measurement, by their bits (nvml.h, nvmlClocksEventReason…)
REASONS = (
    (0x04, "sw_power_cap", "the power limit was reached"),
    (0x08, "hw_slowdown", "the hardware slowed the clocks down"),
    (0x10, "sync_boost", "the clocks follow those of another GPU"),
    (0x20, "sw_thermal_slowdown", "the driver slowed the clocks down because of heat"),
    (0x40, "hw_thermal_slowdown", "the hardware slowed the clocks down because of heat"),
    (0x80, "hw_power_brake_slowdown", "the power supply slowed the clocks down"),
)

#: share of the time before a run in which somebody else's kernels may run
BUSY = 0.05

#: command line → (exit status, what it printed on both streams)
Run = Callable[[Sequence[str]], Tuple[int, str]]


def query(fields: Sequence[Field], run: Optional[Run] = None) -> List[Dict[str, Any]]:
    """Return one object for each GPU: our name → value in SI units, text, or None; raises ``SmiError``."""
    run = run or run_program
    asked = list(fields)
    while asked:
        status, text = run(command(asked))
        if status == 0:
            known = parse(asked, text)
            return [{**dict.fromkeys((f.name for f in fields), None), **gpu} for gpu in known]
        unknown = unknown_field(text)
        left = [field for field in asked if field.query != unknown]
        if len(left) == len(asked):
            raise SmiError("%s ended with status %d: %s" % (PROGRAM, status, _last_line(text)))
        asked = left
    raise SmiError("%s knows none of the fields %s" % (PROGRAM, ", ".join(f.query for f in fields)))


def command(fields: Sequence[Field]) -> List[str]:
    """Return the command line that asks for ``fields``."""
    names = ",".join(field.query for field in fields)
    return [PROGRAM, "--query-gpu=" + names, "--format=csv,noheader,nounits"]


def run_program(argv: Sequence[str]) -> Tuple[int, str]:
    """Return how a command ended and what it printed; raises ``SmiError`` when it cannot be run."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS
        )
    except FileNotFoundError:
        raise SmiError("%s is not installed" % argv[0]) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise SmiError("%s: %s" % (argv[0], error)) from None
    return done.returncode, done.stdout.decode("utf-8", "replace")


def parse(fields: Sequence[Field], text: str) -> List[Dict[str, Any]]:
    """Return the GPUs of a CSV answer without header and units; raises ``SmiError`` for another number of columns."""
    gpus = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if not row:
            continue
        if len(row) != len(fields):
            raise SmiError("%s gave %d columns for %d fields: %s" % (PROGRAM, len(row), len(fields), row))
        gpus.append({field.name: value(field, cell) for field, cell in zip(fields, row)})
    return gpus


def value(field: Field, cell: str) -> Any:
    """Return a cell as text or number in SI units, None when the driver does not tell."""
    cell = cell.strip()
    if not cell or cell == "N/A" or (cell.startswith("[") and cell.endswith("]")):
        return None
    if field.factor is None:
        return cell
    number = re.match(r"-?\d+(\.\d+)?", cell)
    return float(number[0]) * field.factor if number else None


def unknown_field(text: str) -> Optional[str]:
    """Return the field that nvidia-smi says it does not know, or None."""
    match = re.search(r'[Ff]ield "([^"]+)" is not a valid field', text)
    return match[1] if match else None


def clock_reasons(state: Dict[str, Any]) -> List[str]:
    """Return the names of ``REASONS`` that hold the clocks down in a ``STATE``."""
    mask = state.get("clock_reasons") or state.get("clock_reasons_old") or "0"
    try:
        bits = int(mask, 16)
    except ValueError:
        return []
    return [name for bit, name, _ in REASONS if bits & bit]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
