"""What the runs of a block stand on: what is asked for, the built software, the data, the machine."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare import fingerprint, gpu, runtimes
from tare.config import Disturbance
from tare.identity import owner_id
from tare.paths import rootfs_dir
from tare.runtimes import engine, engine_spec
from tare.runtimes.base import LaunchSpec, Stack, Unavailable
from tare.runtimes.crun import ENGINE_SPEC
from tare.runtimes.crun import PROGRAM as CRUN
from tare.variants import Variant, base_of
from tare.worker.cpus import effective_cpus, memory_limit
from tare.worker.request import PROTOCOL
from tare.workloads.declaration import Workload
from tare.workloads.registry import WORKLOADS, family_of

#: the forms of a stack that a runtime stands on, by its base; the others start the image
FORMS_OF = {
    "host": ("host",),
    "chroot": ("rootfs",),
    "chroot-userns": ("rootfs",),
    "crun": ("rootfs", "image"),  # the image, because the engine is asked what it would do with it
}
#: how the data location of a workload's files is chosen
LOCATION = "location"


@dataclass(frozen=True)
class BlockRequest:
    """What a block is made of; ``software`` and ``data`` are the status files of what was built before."""

    study: str
    cell: str
    workload: str
    stack: str
    factors: Mapping[str, str | int]
    block: int
    seed: int
    runtimes: Sequence[str]
    control: str
    threads: int | None
    max_attempts: int
    timeout_seconds: float
    disturbance: Disturbance
    wheel: Path
    image: Path | None
    rootfs: Path | None
    venv: Path | None
    dataset: Path | None
    variants: Mapping[str, Variant] = field(default_factory=dict)
    native: Path | None = None

    def base(self, runtime: str) -> str:
        """Return the runtime that a variant is made from, or the name itself."""
        return base_of(runtime, self.variants)

    @property
    def location(self) -> str:
        """Where the test files of the workload lie; `bind` for one that has none."""
        return str(self.factors.get(LOCATION, "bind"))

    @property
    def spec(self) -> Workload:
        """The facts of the workload."""
        return WORKLOADS[self.workload]


@dataclass(frozen=True)
class Ground:
    """What all runs of a block stand on: the built software, the data, the machine."""

    stack: Stack
    statuses: Mapping[str, str]  # form (host, image, rootfs) → failed | skipped, where it is not ok
    data: Path | None
    data_facts: Mapping[str, Any]
    data_failure: str | None
    node: Mapping[str, Any]
    threads: int
    memory_bytes: int
    worker_sha256: str
    native: Path | None = None
    native_failure: tuple[str, str] | None = None  # (failed | skipped, reason)

    def data_files(self) -> list[Path]:
        """Return the files of the data set."""
        assert self.data is not None
        return [self.data / entry["path"] for entry in self.data_facts["files"]]


def survey(request: BlockRequest) -> Ground:
    """Return what the runs of this block stand on, from the status files and the machine."""
    image, rootfs, venv = (_status(path) for path in (request.image, request.rootfs, request.venv))
    forms = {"image": image, "rootfs": rootfs, "host": venv}
    missing = {
        form: "; ".join(status["reasons"]) or f"{form} is {status['status']}"
        for form, status in forms.items()
        if status["status"] != "ok"
    }
    digest = image.get("digest")
    asked = _engine_spec(request, image)
    data = _status(request.dataset) if request.dataset else {"status": "ok", "reasons": []}
    native = _status(request.native) if request.native else {"status": "ok", "reasons": []}
    return Ground(
        stack=Stack(
            name=request.stack,
            host_python=venv.get("python"),
            image=image.get("image_id"),
            digest=digest,
            rootfs=rootfs_dir(rootfs["digest"]) if rootfs.get("digest") else None,
            lock_sha256=image.get("lock_sha256") or venv.get("lock_sha256"),
            missing=missing | ({ENGINE_SPEC: str(asked)} if isinstance(asked, Unavailable) else {}),
            engine_spec=None if isinstance(asked, Unavailable) else asked,
        ),
        statuses={form: forms[form]["status"] for form in missing},
        data=request.dataset.parent.absolute() if request.dataset else None,
        data_facts=data,
        data_failure=None if data["status"] == "ok" else f"data: {'; '.join(data['reasons'])}",
        node=fingerprint.node_facts(),
        threads=request.threads or effective_cpus(),
        memory_bytes=memory_limit(),
        worker_sha256=hashlib.sha256(request.wheel.read_bytes()).hexdigest(),
        native=request.native.with_suffix("") if request.native and native["status"] == "ok" else None,
        native_failure=None
        if native["status"] == "ok"
        else (str(native["status"]), f"{request.spec.native}: {'; '.join(native['reasons'])}"),
    )


def _engine_spec(request: BlockRequest, image: Mapping[str, Any]) -> dict[str, Any] | Unavailable | None:
    """Return what the engine would tell its OCI runtime, asked once for the block; None where nobody needs it."""
    needed = CRUN in map(request.base, request.runtimes)
    if not needed or image["status"] != "ok" or os.geteuid() != 0 or engine.unavailable():
        return None  # each of these is a reason of its own, which the runtime names
    return engine_spec.capture(image["image_id"], os.getuid(), os.getgid(), owner_id())


def _status(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {"status": "skipped", "reasons": ["not asked for by this study"]}
    status: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return status


def refusal(request: BlockRequest, ground: Ground, name: str) -> tuple[str, str] | None:
    """Return (status, reason) when this runtime cannot be started here, else None.

    Skipped is what this machine lacks. What could be built here and cannot be started now has failed: an engine
    that was stopped or an image that was deleted since must not drop out of the study without a word.
    """
    base = request.base(name)
    if request.spec.gpu and (without := gpu.refusal(base)):
        return "skipped", f"{name}: {without}"
    forms = FORMS_OF.get(base, ("image",))
    for form in forms:
        if ground.statuses.get(form) == "failed":
            return "failed", f"{form}: {ground.stack.missing[form]}"
    unavailable = runtimes.get(name, request.variants).unavailable(ground.stack)
    if unavailable is not None:
        lost = unavailable.lost or (forms == ("image",) and "image" not in ground.statuses)
        return "failed" if lost else "skipped", f"{name}: {unavailable}"
    if ground.native_failure:
        return ground.native_failure
    return ("failed", ground.data_failure) if ground.data_failure else None


def environment(threads: int) -> dict[str, str]:
    """Return the variables every run gets, in every runtime alike; nothing is inherited from the caller."""
    count = str(threads)
    return {
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
    }


def worker_request(request: BlockRequest, ground: Ground, run_id: str, spec: LaunchSpec) -> dict[str, Any]:
    """Return the worker's request.json (worker/PROTOCOL.md)."""
    return {
        "protocol": PROTOCOL,
        "run_id": run_id,
        "family": family_of(request.workload),
        "workload": request.workload,
        "factors": dict(request.factors),
        "seed": request.seed,
        "threads": ground.threads,
        "memory_bytes": ground.memory_bytes,
        "data": spec.data,
        "output": spec.output,
        "files": spec.files,
        "peer": None,
        "handshake": request.spec.cached,
    }
