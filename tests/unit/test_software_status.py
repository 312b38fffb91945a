"""Status files: written in any case, with the reason, and the same for the same result."""

import json
from pathlib import Path
from typing import Any

import pytest

from tare.software import status
from tare.software.errors import Skipped, SoftwareError
from tare.software.locks import StackLock
from tare.software.venv import HostForm

IMAGE = {"stack": "hpc", "status": "ok", "reasons": [], "digest": "sha256:" + "1" * 64}


def fail(fault: Exception) -> Any:
    def make(*_: object) -> None:
        raise fault

    return make


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Skipped("no engine; start it"), ("skipped", ["no engine; start it"])),
        (SoftwareError("step 3 failed"), ("failed", ["step 3 failed"])),
        (OSError(28, "No space left on device"), ("failed", ["OSError: [Errno 28] No space left on device"])),
    ],
)
def test_every_fault_becomes_a_status_and_a_log(
    tmp_path: Path, fault: Exception, expected: tuple[str, list[str]]
) -> None:
    log = tmp_path / "logs/x.log"
    assert status.attempt(fail(fault), log)[:2] == expected
    assert expected[1][0].removeprefix("OSError: ") in log.read_text()


def test_success_has_no_reason(tmp_path: Path) -> None:
    assert status.attempt(lambda: 7, tmp_path / "log") == ("ok", [], 7)


@pytest.mark.parametrize("kind", ["failed", "skipped"])
def test_the_root_filesystem_shares_the_images_fault(tmp_path: Path, kind: str) -> None:
    image = {**IMAGE, "status": kind, "reasons": ["because"], "digest": None}
    assert status.rootfs_status(image, tmp_path / "log") == {
        "stack": "hpc",
        "status": kind,
        "reasons": ["because"],
        "digest": None,
    }


def test_the_root_filesystem_of_a_good_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "ensure_rootfs", lambda _: tmp_path)
    assert status.rootfs_status(IMAGE, tmp_path / "log") == IMAGE
    monkeypatch.setattr(status, "ensure_rootfs", fail(SoftwareError("damaged")))
    assert status.rootfs_status(IMAGE, tmp_path / "log") == {
        **IMAGE,
        "status": "failed",
        "reasons": ["damaged"],
        "digest": None,
    }


def test_the_venv_status_has_the_contracts_keys_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "ensure_host_form", lambda _: HostForm("/p", "3.11.2", {"hpcc": "1"}))
    found = status.venv_status("hpc", StackLock(tmp_path, "absent"), tmp_path / "log")
    assert found == {
        "stack": "hpc",
        "status": "ok",
        "reasons": [],
        "python": "/p",
        "interpreter_version": "3.11.2",
        "lock_sha256": None,
        "packages": {"hpcc": "1"},
    }
    status.write(tmp_path / "venv.json", found)
    assert [*json.loads((tmp_path / "venv.json").read_text())] == [*found]
    assert status.read(tmp_path / "venv.json") == found
