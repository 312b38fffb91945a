"""A stack that takes a second to make: a shell and a few tools of this machine, and a `python3` that is a script.

The script runs `fake.sh` in the run's output folder: each test writes there what its worker does.
"""

from __future__ import annotations

import gc
import io
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_python import imported_id

from tare.identity import owner_id
from tare.paths import cache_dir
from tare.runtimes import engine, engine_spec
from tare.runtimes.base import RunRequest, Stack
from tare.software.locks import StackLock
from tare.software.venv import ensure_host_form


@pytest.fixture(autouse=True)
def _collect_cut_connections(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where a test expects sockets that the SDK drops unclosed, collect them in that test and not in a later one."""
    yield
    if any("Unraisable" in str(mark.args) for mark in request.node.iter_markers("filterwarnings")):
        gc.collect()


TOOLS = ("sh", "env", "cat", "sleep", "id", "chown", "mkdir", "touch", "ls", "grep", "rm", "stat")
FAKE_PYTHON = '#!/bin/sh\n# called as: python3 -m tare.worker <output>/request.json\n. "${3%/*}/fake.sh"\n'
POINTS = ("proc", "sys", "dev", "tmp", "tare", "data")


def _libraries(binary: str) -> set[str]:
    told = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    return {word for word in told.split() if word.startswith("/")}


def _make_root(root: Path) -> None:
    tools = {name: shutil.which(name) for name in TOOLS}
    libraries = {library for path in tools.values() if path for library in _libraries(path)}
    for name, path in tools.items():
        for folder in ("bin", "usr/bin"):
            target = root / folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(path), target)
    for library in libraries:
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    for folder in (*POINTS, "usr/lib", "usr/local"):
        (root / folder).mkdir(exist_ok=True)
    python = root / "usr/bin/python3"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    root.chmod(0o755)


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root filesystem that every user can reach; removed at the end."""
    parent = tmp_path_factory.getbasetemp()
    root = tmp_path_factory.mktemp("root") / "tiny"
    # pytest's folders are closed to others; a run as another user has to come through.
    for folder in (parent, root.parent):
        folder.chmod(folder.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)
    root.mkdir()
    _make_root(root)
    return root


@pytest.fixture(scope="session")
def tiny_image(tiny_root: Path) -> Iterator[str]:
    """The id of an image of the same files; removed at the end."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(tiny_root, arcname=".")
    api = engine.api()
    # no label: containers would inherit it
    image = imported_id(api.import_image_from_data(buffer.getvalue()))
    yield image
    api.remove_image(image, force=True)
    engine.close()


@pytest.fixture(scope="session")
def tiny_spec(tiny_image: str) -> Mapping[str, Any]:
    """What the engine would tell its OCI runtime for the image."""
    found = engine_spec.capture(tiny_image, os.getuid(), os.getgid(), owner_id())
    assert isinstance(found, dict), found
    return found


@pytest.fixture(scope="session")
def torch_python(repository: Path, require: Callable[[str], None]) -> str:
    """The interpreter of the torch stack's host form, made from its lock (kept in the cache)."""
    require("host_python")
    return ensure_host_form(StackLock(repository / "envs", "torch")).python


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: pytest's own may be memory."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=cache_dir()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def host_stack(tmp_path: Path) -> Stack:
    """A stack with a host form alone."""
    python = tmp_path / "python3"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    return Stack("tiny", host_python=str(python))


@pytest.fixture
def make_request(tmp_path: Path) -> Callable[..., RunRequest]:
    """``make_request(stack, script, **changes)``: a request whose worker is the shell script."""

    def make(stack: Stack, script: str, **changes: object) -> RunRequest:
        run_id = f"test-{os.getpid()}-{abs(hash((script, str(tmp_path)))) % 10**8}"
        output = tmp_path / "output"
        output.mkdir(exist_ok=True)
        owner = owner_id()
        request = RunRequest(
            run_id=run_id,
            study="test",
            stack=stack,
            output=output,
            data=None,
            worker_wheel="worker.whl",
            environment={"TARE_RUN_ID": run_id, "TARE_OWNER": owner, "LANG": "C.UTF-8"},
            uid=os.getuid(),
            gid=os.getgid(),
            owner=owner,
        )
        request = replace(request, **changes)
        (request.output / "fake.sh").write_text(script)
        return request

    return make
