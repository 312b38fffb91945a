"""The fingerprint of a run: what is recorded about node, launch, process, software and libraries, as one object.

What differs between any two runs by construction (run id, owner, folders) is replaced by a name in angle
brackets: fingerprints of two runs can be compared as they are, and no user's folder stands in a table.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tare import backing, library_hashes
from tare.config import digest
from tare.identity import node_id
from tare.node import machine_id, node_facts
from tare.paths import cache_dir
from tare.processes import OWNER, RUN_ID
from tare.runtimes.base import LaunchSpec, Outcome, Stack

__all__ = ["assemble", "machine_id", "node_facts", "node_id"]


def assemble(
    *,
    node: Mapping[str, Any],
    spec: LaunchSpec,
    outcome: Outcome,
    events: Mapping[str, Any],
    check: Mapping[str, Any],
    stack: Stack,
    data_sha256: str | None = None,
) -> dict[str, Any]:
    """Return what is stored for a run: ``node``, ``launch``, ``process``, ``software``, ``libraries``, ``check``.

    ``events`` is the worker's `fingerprint` event and ``check`` the facts of its `check` event; both are empty
    when the worker did not come so far, and what they would give is None then.
    """
    names = _names(spec)
    process: Any = events.get("process")
    under = None if process is None else backing.backing(process)
    if process is not None:
        process = {
            name: value for name, value in process.items() if name != "files_upper"
        }  # new in every run
    mapped = [path for path in events.get("libraries") or [] if _is_library(path, spec)]
    sums = (
        library_hashes.image_hashes(stack.digest or "", mapped)
        if spec.kind != "process"
        else library_hashes.host_hashes(mapped)
    )
    return {
        "node": dict(node),
        "launch": _neutral({**_launch(spec, outcome, stack, data_sha256), "backing": under}, names),
        "process": _neutral(process, names),
        "software": _neutral(events.get("software"), names),
        "libraries": _neutral(sums, names) if "libraries" in events else None,
        "check": dict(check),
    }


def _launch(spec: LaunchSpec, outcome: Outcome, stack: Stack, data_sha256: str | None) -> dict[str, Any]:
    launch = dataclasses.asdict(spec)
    launch["options"].pop("command", None)  # the environment and argv once more
    if "oci" in launch["options"]:
        launch["options"]["oci"] = digest(launch["options"]["oci"])  # in full it is kilobytes in every row
    return {
        **launch,
        "engine": dict(outcome.facts),
        "stack": stack.name,
        "image_digest": None if spec.kind == "process" else stack.digest,
        "lock_sha256": stack.lock_sha256,
        "data_sha256": data_sha256,
    }


def _is_library(path: str, spec: LaunchSpec) -> bool:
    """Return whether a mapped file is software: not the data, nor what the run wrote."""
    folders = [folder for folder in (spec.output, spec.data) if folder]
    return library_hashes.is_code(path) and not any(path.startswith(f"{folder}/") for folder in folders)


def _names(spec: LaunchSpec) -> list[tuple[re.Pattern[str], str]]:
    """Return what is replaced by which name, longest text first."""
    options = spec.options
    sources = {mount["target"]: mount["source"] for mount in options.get("mounts", ()) if "source" in mount}
    outer = [str(Path(options["stdout"]).parent)] if "stdout" in options else []
    root = options.get("root", "")
    inside = root if spec.kind == "chroot" else ""  # a chroot's mounts are named as the machine sees them
    texts = {
        **dict.fromkeys([spec.output, *outer, sources.get(f"{inside}{spec.output}", "")], "<output>"),
        **dict.fromkeys([spec.data or "", sources.get(f"{inside}{spec.data}", "")], "<data>"),
        root: "<root>",
        str(cache_dir()): "<cache>",
        spec.environment.get(RUN_ID, ""): "<run>",
        spec.environment.get(OWNER, ""): "<owner>",
    }
    ordered = sorted((text for text in texts if text), key=len, reverse=True)
    # Whole parts of a path only: /tare is not the start of /tare-cache, nor the end of /srv/tare.
    return [(re.compile(rf"(?<![\w./-]){re.escape(text)}(?![\w.-])"), texts[text]) for text in ordered]


def _neutral(value: Any, names: list[tuple[re.Pattern[str], str]]) -> Any:
    if isinstance(value, str):
        for pattern, name in names:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, Mapping):
        return {_neutral(key, names): _neutral(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_neutral(inner, names) for inner in value]
    return value
