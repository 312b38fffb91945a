"""What the runs of a block stand on: the status files of software and data, and what follows for each runtime."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from scripted_runtime import Scripted, block_request, play, software

from tare import ground, runtimes
from tare.ground import BlockRequest, environment, refusal, survey, worker_request
from tare.runtimes.base import RunRequest, Unavailable
from tare.runtimes.host import Host

NODE = {"node": "n", "machine_id": "m"}
FAILED = {
    "status": "failed",
    "reasons": ["apt: no such version", "run make relock"],
    "digest": None,
    "image_id": None,
}
SKIPPED = {"status": "skipped", "reasons": ["no Python 3.11; install python3.11"], "python": None}


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlockRequest:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ground.fingerprint, "node_facts", lambda: NODE)
    for name in ("host", "chroot", "docker"):
        monkeypatch.setitem(runtimes.RUNTIMES, name, Scripted(name, play()))
    return block_request(tmp_path / "given")


def changed(request: BlockRequest, **forms: dict[str, Any]) -> BlockRequest:
    software(request.wheel.parent, **forms)
    return request


def test_everything_built_is_found(request_: BlockRequest, tmp_path: Path) -> None:
    found = survey(request_)
    assert (found.stack.name, found.stack.image, found.stack.digest) == ("torch", "sha256:i", "sha256:d")
    assert found.stack.host_python == "/venv/bin/python"
    assert found.stack.rootfs == tmp_path / "cache/rootfs/d"
    assert (found.stack.lock_sha256, dict(found.stack.missing), dict(found.statuses)) == ("l", {}, {})
    assert found.data_files() == [tmp_path / "given/data/files/images"]
    assert found.data_failure is None
    assert found.worker_sha256 == hashlib.sha256(b"wheel").hexdigest()
    assert (found.threads, found.node) == (2, NODE)
    for name in ("host", "chroot", "docker"):
        assert refusal(request_, found, name) is None


def test_threads_are_the_effective_cpus_unless_the_config_says(
    request_: BlockRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ground, "effective_cpus", lambda: 5)
    assert survey(dataclasses.replace(request_, threads=None)).threads == 5
    assert survey(request_).threads == 2


@pytest.mark.parametrize("name", ["docker", "chroot"])
def test_a_failed_build_is_a_failure_and_no_skip(request_: BlockRequest, name: str) -> None:
    found = survey(changed(request_, image=FAILED, rootfs=FAILED))
    (form,) = ground.FORMS_OF.get(name, ("image",))
    assert refusal(request_, found, name) == ("failed", f"{form}: apt: no such version; run make relock")
    assert refusal(request_, found, "host") is None


def test_a_build_this_machine_cannot_do_is_a_skip_with_its_remedy(
    request_: BlockRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = survey(changed(request_, venv=SKIPPED))
    assert found.statuses == {"host": "skipped"}
    monkeypatch.setitem(runtimes.RUNTIMES, "host", Host())
    assert refusal(request_, found, "host") == ("skipped", "host: no Python 3.11; install python3.11")


def test_a_failed_build_counts_before_anything_the_machine_lacks(request_: BlockRequest) -> None:
    found = survey(changed(request_, image=FAILED))
    runtimes.RUNTIMES["docker"].why = Unavailable("no engine", "start it")  # type: ignore[attr-defined]
    assert refusal(request_, found, "docker") == ("failed", "image: apt: no such version; run make relock")


def test_a_runtime_this_machine_lacks_is_skipped_even_when_data_failed(request_: BlockRequest) -> None:
    found = survey(
        changed(request_, dataset={"status": "failed", "reasons": ["labels: 3 bytes", "get it again"]})
    )
    assert found.data_failure == "data: labels: 3 bytes; get it again"
    assert refusal(request_, found, "host") == ("failed", "data: labels: 3 bytes; get it again")
    runtimes.RUNTIMES["chroot"].why = Unavailable("needs root", "run as root")  # type: ignore[attr-defined]
    assert refusal(request_, found, "chroot") == ("skipped", "chroot: needs root; run as root")


def test_a_built_image_whose_engine_is_gone_is_a_failure(request_: BlockRequest) -> None:
    """It could be started here when it was built: skipping it would lose it from the study without a word."""
    found = survey(request_)
    runtimes.RUNTIMES["docker"].why = Unavailable("no engine answers", "start it")  # type: ignore[attr-defined]
    assert refusal(request_, found, "docker") == ("failed", "docker: no engine answers; start it")


def test_what_a_study_did_not_ask_for_is_not_there(request_: BlockRequest) -> None:
    found = survey(dataclasses.replace(request_, image=None, rootfs=None, dataset=None))
    assert dict(found.stack.missing) == dict.fromkeys(("image", "rootfs"), "not asked for by this study")
    assert (found.data, found.data_failure, found.stack.digest) == (None, None, None)
    assert found.stack.lock_sha256 == "l"


def test_a_status_without_reasons_still_says_something(request_: BlockRequest) -> None:
    found = survey(changed(request_, image={**FAILED, "reasons": []}))
    assert refusal(request_, found, "docker") == ("failed", "image: image is failed")


def test_the_environment_is_made_from_nothing_and_sets_every_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_CORETYPE", "LD_PRELOAD", "PYTHONSTARTUP", "OMP_PROC_BIND"):
        monkeypatch.setenv(name, "stray")
    assert environment(3) == {
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "3"),
    }
    assert os.environ["OMP_PROC_BIND"] == "stray"


def test_the_workers_request_is_the_protocols(request_: BlockRequest, tmp_path: Path) -> None:
    found = survey(request_)
    spec = dataclasses.replace(
        Scripted("docker", play()).specify(
            RunRequest("id", "s", found.stack, tmp_path, found.data, "w", {}, 0, 0, "o")
        ),
        output="/tare",
        data="/data",
    )
    assert worker_request(request_, found, "id", spec) == {
        "protocol": 2,
        "family": "training",
        "run_id": "id",
        "workload": "train-torch-fcn5",
        "factors": {"batch": 512, "samples": 2048, "epochs": 2, "workers": 0, "cache": "as-is"},
        "seed": 3,
        "threads": 2,
        "memory_bytes": found.memory_bytes,
        "data": "/data",
        "output": "/tare",
        "files": spec.files,
        "peer": None,
        "handshake": True,
    }
