"""From wishes (``envs/*.in``) to locks: apt resolves the Debian packages, uv the wheels. For `make relock` only."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tare.software.apt import PrivateApt, sources_for, status_text
from tare.software.errors import SoftwareError
from tare.software.files import scratch, write_text
from tare.software.locks import SNAPSHOT_FORMAT, Deb, DebLock, StackLock
from tare.software.wheels import index_options

PIPELINE = ("pipeline", "develop")
#: locks of wheels alone, used by rules and no part of a stack: the compiler of the native programs
TOOLS = ("native",)
BASE = "base"
_UV_OPTIONS = ("--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url")
_TARGET = re.compile(r"^# python: (\d+\.\d+), platform: (\S+)$", re.MULTILINE)


def relock_debs(envs: Path, names: Sequence[str], mirror: str) -> None:
    """Write ``<name>.debs.lock`` of ``names``; all but the base leave out what the base has.

    They share one base, so they are resolved together: a stack locked against another base than the one that is
    built may not install.
    """
    wishes = {name: StackLock(envs, name).wish() for name in {BASE, *names}}
    suites = sorted({wish.suite for wish in wishes.values()})
    if len(suites) != 1:
        raise SoftwareError(
            f"the .debs.in files name several suites ({', '.join(suites)}); the base serves only one"
        )
    strict = mirror == "auto"  # a mirror given by hand need not have every part of a suite
    with scratch("relock") as folder:
        sources = sources_for(suites[0], mirror)
        base_apt = _updated(folder / BASE, sources, "", strict)
        moment = max(base_apt.dates()).strftime(SNAPSHOT_FORMAT)
        base = _resolve(base_apt, [*base_apt.required(), "apt", *wishes[BASE].names])
        for name in names:
            chosen = base
            if name != BASE:
                apt = _updated(folder / name, sources, status_text(base), strict)
                chosen = _resolve(apt, wishes[name].names)
            text = DebLock(suites[0], moment, tuple(map(_deb, chosen))).text()
            write_text(StackLock(envs, name).debs_path, text)


def _updated(folder: Path, sources: Sequence[str], installed: str, strict: bool) -> PrivateApt:
    apt = PrivateApt(folder, sources, installed)
    words = apt.update(strict)
    if not apt.dates():
        raise SoftwareError(f"no package list could be fetched: {words}; check --mirror and the network")
    return apt


def _resolve(apt: PrivateApt, names: Sequence[str]) -> list[Mapping[str, str]]:
    """Return the records of what installing ``names`` adds."""
    chosen = apt.resolve(names)
    records = apt.records(chosen)
    lost = [name for name, version in chosen if (name, version) not in records]
    if lost:
        raise SoftwareError(f"apt chose {', '.join(lost)} but has no record of them; try another --mirror")
    return list(records.values())


def _deb(record: Mapping[str, str]) -> Deb:
    return Deb(
        record["Package"], record["Version"], record["Architecture"], record["SHA256"], int(record["Size"])
    )


def relock_wheels(envs: Path, name: str) -> None:
    """Write ``<name>.lock.txt`` for the interpreter and platform that the wish names."""
    wish = envs / f"{name}.in"
    text = wish.read_text(encoding="utf-8")
    target = _TARGET.search(text)
    if not target:
        raise SoftwareError(f"{wish}: needs a line “# python: 3.11, platform: manylinux_2_28_x86_64”")
    python, platform = target[1], target[2]
    requirements = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("--"))
    options = ["--python-version", python, "--python-platform", _uv_platform(platform), "-"]
    places = _pip_places("find-links")
    tries = [places, places + _pip_places("index-url", "extra-index-url"), places + index_options(wish)]
    lock = _uv(options, tries, requirements, envs) if re.search(r"^\w", text, re.MULTILINE) else ""
    write_text(envs / f"{name}.lock.txt", f"# python {python} {platform}\n{lock}")


def relock_pipeline(envs: Path, name: str) -> None:
    """Write ``pipeline.lock.txt`` or ``develop.lock.txt``: one lock for every platform, for Python 3.11 and later."""
    options = ["--universal", "--python-version", "3.11", f"{name}.in"]
    tries = [[], _pip_places("find-links", "index-url", "extra-index-url")]
    write_text(envs / f"{name}.lock.txt", _uv(options, tries, "", envs))


def _uv_platform(platform: str) -> str:
    """Return uv's name of a wheel platform: the machine stands first (``x86_64-manylinux_2_28``)."""
    match = re.fullmatch(r"(manylinux_\d+_\d+|manylinux2014)_(\w+)", platform)
    return f"{match[2]}-{match[1]}" if match else platform


def _uv(options: Sequence[str], tries: Sequence[Sequence[str]], requirements: str, envs: Path) -> str:
    """Return the resolved lock; the further places of ``tries`` are asked only when the ones before do not do."""
    faults: list[str] = []
    for places in dict.fromkeys(map(tuple, tries)):
        done = subprocess.run(
            [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *_UV_OPTIONS, *places, *options],
            input=requirements,
            cwd=envs,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        faults.append(done.stderr.strip())
    raise SoftwareError("uv cannot resolve the wish:\n" + "\n".join(faults))


def _pip_places(*keys: str) -> list[str]:
    """Return what pip's configuration says for ``keys`` as options of uv, which does not read it."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    found = re.findall(r"^\S*?\.([a-z-]+)='(.*)'$", done.stdout, re.MULTILINE)
    pairs = [
        (key, place) for key, value in found if key in keys for place in value.replace("\\n", " ").split()
    ]
    return [part for key, place in dict.fromkeys(pairs) for part in (f"--{key}", place)]
