"""Cold without root, on a real disk: cases 26 and 27, as an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare import page_cache

SOURCE = str(Path(page_cache.__file__).parents[1])
AsUser = Callable[..., subprocess.CompletedProcess[str]]

EVICT = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from tare import page_cache
path = Path(sys.argv[1])
page_cache.warm([path])
result = page_cache.evict([path])
def read_bytes(): return int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])
before = read_bytes()
page_cache.warm([path])
read = read_bytes() - before
proof = page_cache.cold_proof(result.resident_after, read, path.stat().st_size)
print(json.dumps({**asdict(result), "read": read, "cold": proof.ok}))
"""


def evict_as_user(as_user: AsUser, file: Path) -> dict[str, object]:
    done = as_user(
        ["python3", "-c", EVICT, str(file)], cwd="/", env={"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE}
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.fixture
def file(user_dir: Path) -> Path:
    path = user_dir / "data"
    path.write_bytes(os.urandom(8 * 1024**2))
    kind = page_cache.file_system(path)
    assert kind in page_cache.LOCAL_FILE_SYSTEMS, (
        f"the temporary folder is on {kind}: set TMPDIR to a local disk"
    )
    return path


@pytest.mark.needs("ordinary_user")
def test_ordinary_user_starts_cold_and_proves_it(file: Path, as_user: AsUser) -> None:
    uid = file.parent.stat().st_uid
    os.chown(file, uid, uid)
    told = evict_as_user(as_user, file)
    assert (told["resident_before"], told["resident_after"]) == (1.0, 0.0)
    assert (told["method"], told["verified"], told["reason"]) == ("fadvise", True, "")
    assert isinstance(told["read"], int)
    assert told["read"] >= 8 * 1024**2
    assert told["cold"] is True


@pytest.mark.needs("ordinary_user", "root")
def test_data_of_another_owner_is_never_called_cold(file: Path, as_user: AsUser) -> None:
    """mincore says 1.0 to whoever neither owns nor may write the file, evicted or not: nothing is proved."""
    file.chmod(0o444)  # root's
    told = evict_as_user(as_user, file)
    assert (told["resident_after"], told["verified"], told["cold"]) == (1.0, False, False)
    assert "mincore tells the truth only to the owner" in str(told["reason"])
    assert "/proc/sys/vm/drop_caches cannot be written (Permission denied)" in str(told["reason"])
    assert page_cache.resident_share([file]) == 1.0  # asked by root, after the user's own reading


@pytest.mark.needs("drop_caches", "root")
def test_pages_that_advice_leaves_are_dropped_by_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1024**2))
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    result = page_cache.evict([path])
    assert (result.resident_before, result.resident_after) == (1.0, 0.0)
    assert (result.method, result.verified) == ("fadvise+drop_caches", True)
