"""nvidia-smi's answers as numbers: units, fields a driver does not know or tell, refusals, reasons of the clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tare.worker import nvidia_smi
from tare.worker.nvidia_smi import SETTINGS, STATE, Field, SmiError

#: what a driver of 2024 answers to `command(SETTINGS)` on a machine of two GPUs, ECC on one of them
TWO = (
    "NVIDIA H200, 550.127.08, GPU-5a1e3c7a-0000-1111-2222-333344445555, 96.00.A5.00.01, 143771, Enabled, Enabled, "
    "Default, Disabled, 700.00, 1980, 1980, 3201, 5, 16\n"
    "Tesla T4, 550.127.08, GPU-11112222-3333-4444-5555-666677778888, 90.04.96.00.9F, 15360, [N/A], Disabled, "
    "Default, [N/A], 70.00, 1590, 1590, 5001, 3, 16\n"
)
#: to `command(STATE)`; the older name of the reasons is an alias of the newer
BUSY = (
    "P0, Enabled, 1755, 3201, 698.51, 66, 100, 5, 16, 0, 0x0000000000000004, 0x0000000000000004, "
    "1520000, 0, 0, 0, 0\n"
)


def answering(
    text: str, unknown: Sequence[str] = ()
) -> tuple[Callable[..., tuple[int, str]], list[list[str]]]:
    """A driver that knows all fields but some, and the command lines it was given."""
    asked: list[list[str]] = []

    def run(argv: Sequence[str]) -> tuple[int, str]:
        asked.append([*argv])
        for name in unknown:
            if name in argv[1].removeprefix("--query-gpu=").split(","):
                return 2, f'Field "{name}" is not a valid field to query.\n\n'
        return 0, text

    return run, asked


def test_settings_in_si_units() -> None:
    run, asked = answering(TWO)
    first, second = nvidia_smi.query(SETTINGS, run)
    assert first == {
        "model": "NVIDIA H200",
        "driver": "550.127.08",
        "uuid": "GPU-5a1e3c7a-0000-1111-2222-333344445555",
        "vbios": "96.00.A5.00.01",
        "memory_bytes": 143771 * 2**20,
        "ecc": "Enabled",
        "persistence_mode": "Enabled",
        "compute_mode": "Default",
        "mig": "Disabled",
        "power_limit_watts": 700.0,
        "application_clock_hz": 1.98e9,
        "max_sm_clock_hz": 1.98e9,
        "max_memory_clock_hz": 3.201e9,
        "max_pcie_generation": 5.0,
        "max_pcie_lanes": 16.0,
    }
    assert (second["model"], second["ecc"], second["mig"]) == ("Tesla T4", None, None)
    assert asked == [nvidia_smi.command(SETTINGS)]
    assert asked[0][0] == "nvidia-smi"
    assert asked[0][1].startswith("--query-gpu=name,driver_version,uuid,")
    assert asked[0][2:] == ["--format=csv,noheader,nounits"]


def test_state_under_load() -> None:
    run, _ = answering(BUSY)
    (state,) = nvidia_smi.query(STATE, run)
    assert (state["sm_clock_hz"], state["power_watts"], state["utilisation"]) == (1.755e9, 698.51, 1.0)
    assert state["sw_power_cap_seconds"] == pytest.approx(1.52)
    assert nvidia_smi.clock_reasons(state) == ["sw_power_cap"]


def test_fields_unknown_to_a_driver_are_left_out_and_none() -> None:
    fields = (
        Field("name", "model"),
        Field("new", "new"),
        Field("clocks.sm", "clock", 1e6),
        Field("old", "old"),
    )
    run, asked = answering("Tesla K80, 562\n", unknown=("new", "old"))
    assert nvidia_smi.query(fields, run) == [
        {"model": "Tesla K80", "new": None, "clock": 5.62e8, "old": None}
    ]
    assert [argv[1] for argv in asked] == [
        "--query-gpu=name,new,clocks.sm,old",
        "--query-gpu=name,clocks.sm,old",
        "--query-gpu=name,clocks.sm",
    ]


def test_a_driver_that_knows_nothing_is_an_error() -> None:
    run, _ = answering("", unknown=("name",))
    with pytest.raises(SmiError, match="knows none of the fields name"):
        nvidia_smi.query([Field("name", "model")], run)


@pytest.mark.parametrize(
    ("status", "text", "says"),
    [
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            "communicate with",
        ),
        (2, 'Field "other" is not a valid field to query.', "other"),
        (255, "", "ended with status 255: it said nothing"),
        (0, "a, b\n", "gave 2 columns for 1 fields"),
    ],
)
def test_refusals(status: int, text: str, says: str) -> None:
    with pytest.raises(SmiError, match=says):
        nvidia_smi.query([Field("name", "model")], lambda _: (status, text))


def test_no_gpu_is_an_empty_list() -> None:
    assert nvidia_smi.query([Field("name", "model")], lambda _: (0, "\n")) == []


@pytest.mark.parametrize(
    ("cell", "factor", "expected"),
    [
        ("[N/A]", None, None),
        ("[Not Supported]", 1.0, None),
        ("[Unknown Error]", 1.0, None),
        ("N/A", None, None),
        ("", None, None),
        ("1755", 1e6, 1.755e9),
        ("1755 MHz", 1e6, 1.755e9),
        ("-3", 1.0, -3.0),
        ("high", 1.0, None),
        (" Enabled ", None, "Enabled"),
    ],
)
def test_values(cell: str, factor: float | None, expected: object) -> None:
    assert nvidia_smi.value(Field("x", "x", factor), cell) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, []),
        ({"clock_reasons": "0x0000000000000001"}, []),  # idle
        ({"clock_reasons": "0x0000000000000002"}, []),  # the user's own setting
        (
            {"clock_reasons": None, "clock_reasons_old": "0x0000000000000048"},
            ["hw_slowdown", "hw_thermal_slowdown"],
        ),
        ({"clock_reasons": "0x20", "clock_reasons_old": "0x80"}, ["sw_thermal_slowdown"]),
        ({"clock_reasons": "Active"}, []),
    ],
)
def test_clock_reasons(state: dict[str, str], expected: list[str]) -> None:
    assert nvidia_smi.clock_reasons(state) == expected


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(SmiError, match="no-such-nvidia-smi is not installed"):
        nvidia_smi.run_program(["no-such-nvidia-smi"])


def test_a_program_is_run_and_both_streams_read() -> None:
    assert nvidia_smi.run_program(["/bin/sh", "-c", "echo a; echo b >&2; exit 3"]) == (3, "a\nb\n")
