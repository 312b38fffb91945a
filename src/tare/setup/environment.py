"""The pipeline's own environment, ``.venv``: what state it is in, and making it from a hash-locked list."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STAMP = "tare-stamp.json"
#: which lock a goal installs; develop is a superset of pipeline
LOCK_OF_GOAL = {"study": "pipeline", "test": "develop"}
SUPERSETS = {"pipeline": ("pipeline", "develop"), "develop": ("develop",)}

Runner = Callable[[Sequence[str]], int]


class SetupError(RuntimeError):
    """Set-up cannot go on; the message names what failed and the remedy."""


@dataclass(frozen=True)
class VenvState:
    """State of ``.venv`` for a goal: ``ready``, ``extend`` (install more into it) or ``make``; ``why`` in words."""

    action: str
    why: str

    @property
    def ready(self) -> bool:
        """True when nothing has to be done."""
        return self.action == "ready"


def lock_file(root: Path, lock: str) -> Path:
    """Return the path of a lock by its name (``pipeline`` or ``develop``)."""
    return root / "envs" / f"{lock}.lock.txt"


def lock_hash(root: Path, lock: str) -> str:
    """Return the sha256 (hex) of a lock; raises ``SetupError`` when the checkout lacks it."""
    path = lock_file(root, lock)
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SetupError(
            f"{path} cannot be read ({error.strerror}); restore it: git checkout {path}"
        ) from None


def _read_stamp(venv: Path) -> dict[str, Any]:
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def state(root: Path, goal: str) -> VenvState:
    """Return what has to be done so that ``.venv`` serves ``goal``; starts the venv's interpreter once."""
    venv, lock = root / ".venv", LOCK_OF_GOAL[goal]
    if not venv.exists():
        return VenvState("make", "there is none yet")
    stamp = _read_stamp(venv)
    if not stamp:
        return VenvState("make", "it was left half made")
    if stamp.get("path") != str(venv):
        return VenvState("make", f"it was made for {stamp.get('path')}")
    if not _runs(venv / "bin" / "python"):
        return VenvState("make", "its interpreter no longer runs")
    if any(stamp.get("sha256") == lock_hash(root, name) for name in SUPERSETS[lock]):
        return VenvState("ready", "up to date")
    if lock == "develop" and stamp.get("sha256") == lock_hash(root, "pipeline"):
        return VenvState("extend", "the tests need more")
    return VenvState("make", f"{lock_file(Path(), lock)} has changed")


def _runs(python: Path) -> bool:
    try:
        probe = subprocess.run([python, "-c", "import tare, snakemake"], capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return probe.returncode == 0


def make(root: Path, goal: str, python: str, run: Runner, remove: Callable[[Path], None]) -> None:
    """Bring ``.venv`` to the state ``goal`` needs, from ``python``; the stamp is written last.

    Raises ``SetupError`` naming the failed command; what was half made is remade by the next call.
    """
    venv, lock = root / ".venv", LOCK_OF_GOAL[goal]
    if state(root, goal).action == "make":
        if venv.exists() or venv.is_symlink():
            remove(venv)
        if run([python, "-m", "venv", str(venv)]) != 0:
            raise SetupError(f"{python} could not make {venv}; see above, then run it again")
    (venv / STAMP).unlink(missing_ok=True)
    install = [str(venv / "bin" / "python"), "-m", "pip", "install", "--require-hashes", "--no-input"]
    install += ["--disable-pip-version-check", "--quiet", "-r", str(lock_file(root, lock))]
    if run(install) != 0:
        raise SetupError(
            "pip could not install the pipeline's environment (see above). If it could not download: is the network "
            "up, and are the proxy and package index right (`pip config list`)? Then run it again"
        )
    _link_source(venv, root / "src")
    stamp = {"lock": lock, "sha256": lock_hash(root, lock), "path": str(venv)}
    (venv / STAMP).write_text(json.dumps(stamp) + "\n", encoding="utf-8")


def _link_source(venv: Path, source: Path) -> None:
    """Make ``tare`` importable in the venv from the checkout itself, without a build."""
    for packages in venv.glob("lib/python3*/site-packages"):
        (packages / "tare.pth").write_text(f"{source}\n", encoding="utf-8")
