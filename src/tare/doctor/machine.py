"""What the checks look at, and what they answer with."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare import paths
from tare.doctor import residency
from tare.setup import capabilities, engine_probe

ABLE = "what this machine can measure"
DISTURBS = "what would disturb a measurement"

OK, WARN, NO, INFO = "ok", "warn", "no", "info"
GIB = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One row: what was looked at, the value found, what is good, and how to get there.

    ``level`` is ``ok``, ``warn`` (would disturb), ``no`` (cannot be measured) or ``info`` (no judgement).
    """

    group: str
    check: str
    value: str
    good: str
    level: str
    remedy: str = ""


def ability(check: str, ok: bool, value: str, good: str, remedy: str) -> Finding:
    """Return whether something can be measured; the remedy only where it cannot."""
    return Finding(ABLE, check, value, good, OK if ok else NO, "" if ok else remedy)


def quiet(check: str, fine: bool | None, value: str, good: str, remedy: str) -> Finding:
    """Return whether something would disturb a measurement (``fine`` None: no judgement); the remedy where it would."""
    level = INFO if fine is None else OK if fine else WARN
    return Finding(DISTURBS, check, value, good, level, remedy if fine is False else "")


@dataclass(frozen=True)
class Machine:
    """The machine as the checks see it; everything but the files below ``root`` is read once, at the edge.

    ``containers`` are the names of running containers that are not Tare's, None when no engine tells.
    """

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=dict)
    affinity: int = 1
    checkout: Path = Path("/")
    cache: Path = Path("/")
    memlock: int = resource.RLIM_INFINITY
    capability: Callable[[str], capabilities.Capability] = capabilities.detect
    engine: engine_probe.EngineState = field(
        default_factory=lambda: engine_probe.EngineState("absent", "", "not asked")
    )
    engine_info: Mapping[str, Any] = field(default_factory=dict)
    containers: Sequence[str] | None = None
    fadvise_evicts: bool | None = None
    gpus: Sequence[Mapping[str, Any]] = ()  # worker.nvidia_smi: settings and state of each

    def read(self, path: str) -> str | None:
        """Return the stripped text of an absolute path below the root, None when it is absent or closed."""
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def at(self, path: str) -> Path:
        """Return where an absolute path lies below the root."""
        return self.root / path.lstrip("/")

    def read_all(self, pattern: str) -> list[str]:
        """Return the texts of all files that match a pattern below the root, in the order of their names."""
        texts = (
            self.read(str(path.relative_to(self.root)))
            for path in sorted(self.root.glob(pattern.lstrip("/")))
        )
        return [text for text in texts if text is not None]


def this_machine(checkout: Path) -> Machine:
    """Return the machine this process runs on."""
    engine = engine_probe.probe()
    running = engine_probe.get_json(engine.address, "/containers/json") if engine.answers else None
    info = engine_probe.get_json(engine.address, "/info") if engine.answers else None
    return Machine(
        root=Path("/"),
        environ=dict(os.environ),
        affinity=len(os.sched_getaffinity(0)),
        checkout=checkout,
        cache=paths.cache_dir(),
        memlock=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        engine=engine,
        engine_info=info if isinstance(info, dict) else {},
        containers=others(running) if isinstance(running, list) else None,
        fadvise_evicts=residency.evicts(checkout / "envs" / "develop.lock.txt"),
    )


def others(running: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the containers in an engine's list that do not carry Tare's label."""
    return sorted(
        (entry.get("Names") or [entry.get("Id", "?")[:12]])[0].lstrip("/")
        for entry in running
        if "tare" not in (entry.get("Labels") or {})
    )
