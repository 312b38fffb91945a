from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.order import Slot, slots

RUNTIMES = ("host", "chroot", "docker")


def test_the_order_of_a_block_is_pinned() -> None:
    """A change of this order would silently re-randomise finished studies."""
    assert slots(20260101, "hpcc", 0, RUNTIMES, "chroot") == (
        Slot(0, "chroot", "measure"),
        Slot(1, "docker", "measure"),
        Slot(2, "chroot", "control"),
        Slot(3, "host", "measure"),
    )


@given(st.integers(0, 2**40), st.text(max_size=20), st.integers(0, 500), st.sampled_from(RUNTIMES))
def test_every_runtime_measures_once_and_the_control_runs_twice(
    seed: int, cell: str, block: int, control: str
) -> None:
    order = slots(seed, cell, block, RUNTIMES, control)
    assert [slot.position for slot in order] == [0, 1, 2, 3]
    assert Counter(slot.runtime for slot in order if slot.role == "measure") == Counter(RUNTIMES)
    assert [slot.runtime for slot in order if slot.role == "control"] == [control]


def test_no_runtime_and_no_role_is_favoured_by_its_place() -> None:
    first = Counter(slots(7, "cell", block, RUNTIMES, "host")[0].runtime for block in range(4000))
    # host holds two of the four slots
    assert first["host"] == pytest.approx(2000, abs=150)
    assert first["chroot"] == pytest.approx(1000, abs=150)
    control_earlier = 0
    for block in range(4000):
        host = [slot.role for slot in slots(7, "cell", block, RUNTIMES, "host") if slot.runtime == "host"]
        control_earlier += host[0] == "control"
    assert control_earlier == pytest.approx(2000, abs=150)


def test_seed_cell_and_block_each_change_the_order() -> None:
    def orders(**change: object) -> set[tuple[Slot, ...]]:
        base = {"seed": 1, "cell": "a", "block": 0}
        return {
            slots(**{**base, name: value}, runtimes=RUNTIMES, control="host")  # type: ignore[arg-type]
            for name, values in change.items()
            for value in values  # type: ignore[attr-defined]
        }

    assert len(orders(seed=range(50))) > 5
    assert len(orders(cell=[str(i) for i in range(50)])) > 5
    assert len(orders(block=range(50))) > 5
