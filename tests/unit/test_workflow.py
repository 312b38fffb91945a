"""What the Snakefile does besides rules: the jobs know whose they are, and whose Snakemake's lock is is written."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tare import config, workflow
from tare.identity import start_ticks
from tare.progress import PLAN_VARIABLE
from tare.run import WORKFLOW_VARIABLE


@pytest.fixture
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is set during the test is as before after it."""
    for name in (WORKFLOW_VARIABLE, PLAN_VARIABLE):
        monkeypatch.setenv(name, "before")


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("own_environment")
def test_every_job_knows_its_snakemake_and_the_plan() -> None:
    study = config.load({"cells": [{"workload": "hpcc", "factors": {"n": [1000, 2000]}}], "blocks": 3})
    workflow.announce(study)
    assert os.environ[WORKFLOW_VARIABLE] == str(os.getpid())
    assert json.loads(os.environ[PLAN_VARIABLE]) == {
        "cells": {"hpcc+n=1000": "hpcc", "hpcc+n=2000": "hpcc"},
        "blocks": 3,
        "runs": 4,  # host, chroot, docker, and the control
    }


@pytest.mark.usefixtures("handler")
def test_a_snakemake_that_begins_writes_whose_lock_it_is_and_ends_at_once_by_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    workflow.begin()
    assert json.loads((tmp_path / ".snakemake/tare-owner.json").read_text()) == {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "starttime": start_ticks(os.getpid()),
    }
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_dead_owners_note_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "folder/owner.json"
    path.parent.mkdir()
    path.write_text('{"host": "h", "pid": 1, "starttime": 1}')
    workflow.write_owner(path)
    assert json.loads(path.read_text())["pid"] == os.getpid()
