"""Fixtures: copies of the repository for Snakemake to be asked in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import Checkout, copy_checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh copy for one test."""
    return copy_checkout(tmp_path / "tare")


@pytest.fixture(scope="session")
def make_checkout(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Checkout]:
    """Make copies that live for the session."""
    return lambda: copy_checkout(tmp_path_factory.mktemp("checkout") / "tare")
