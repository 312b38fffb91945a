"""The packages and the disk that Tare needs from the machine, as data; each need knows how it is recognised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """A Debian package, the file patterns (below /) that prove its content is there, and what it is for."""

    name: str
    proofs: tuple[str, ...]
    purpose: str
    #: False: without it something is skipped with its reason, and the study goes on
    required: bool = True
    #: needed by users other than root only
    ordinary: bool = False
    #: needed only by root, for studies with a runtime made from crun
    crun: bool = False
    #: needed only when the images' Debian is bootstrapped here (software.base.source: bootstrap)
    bootstrap: bool = False


def _programs(name: str) -> tuple[str, ...]:
    return (f"usr/bin/{name}", f"usr/local/bin/{name}", f"usr/sbin/{name}", f"bin/{name}")


PACKAGES = (
    Package("mmdebstrap", _programs("mmdebstrap"), "bootstraps the images' Debian", bootstrap=True),
    Package(
        "debian-archive-keyring",
        ("usr/share/keyrings/debian-archive-keyring.*",),
        "verifies Debian's packages",
        bootstrap=True,
    ),
    Package("uidmap", _programs("newuidmap"), "bootstraps without being root", ordinary=True, bootstrap=True),
    Package("hpcc", _programs("hpcc"), "runtime host of stack hpc", required=False),
    Package(
        "libopenblas0-pthread",
        ("usr/lib/*/openblas-pthread/libopenblas.so.0",),
        "runtime host of stack hpc",
        required=False,
    ),
    Package("openmpi-bin", _programs("mpirun"), "runtime host of stack hpc", required=False),
    Package("ioping", _programs("ioping"), "runtime host of stack hpc", required=False),
    Package("fio", _programs("fio"), "runtime host of stack hpc", required=False),
    Package("iperf3", _programs("iperf3"), "runtime host of stack hpc", required=False),
    Package("crun", _programs("crun"), "runtimes made from crun", required=False, crun=True),
)

ENGINE_PACKAGE = "docker.io"
VENV_PACKAGE = "python3-venv"


@dataclass(frozen=True)
class Space:
    """Room that something needs, in bytes; ``place`` is checkout, cache or engine."""

    place: str
    purpose: str
    size: int


GB = 10**9
ENVIRONMENT_SPACE = Space("checkout", "the pipeline's environment", 1 * GB)
#: upper bounds of what the quick study's stacks take from nothing to built
STUDY_SPACE = (
    Space("checkout", "wheels, environments and results", 4 * GB),
    Space("cache", "archives and root filesystems", 4 * GB),
    Space("engine", "images", 3 * GB),
)
#: what a study needs once its stacks are built
RESULTS_SPACE = (Space("checkout", "results", GB // 10),)


def missing(root: Path, ordinary_user: bool, bootstrap: bool, crun: bool = False) -> tuple[Package, ...]:
    """Return the packages of ``PACKAGES`` that apply to this user and are not found below ``root``."""
    return tuple(
        package
        for package in PACKAGES
        if (ordinary_user or not package.ordinary)
        and (bootstrap or not package.bootstrap)
        and (crun or not package.crun)
        and not any(any(root.glob(proof)) for proof in package.proofs)
    )


def has_crun(configs: Iterable[Path]) -> bool:
    """Return whether one of these study configs has a runtime made from crun: the word outside a comment."""
    return any(re.search(r"^[^#\n]*\bcrun\b", text, re.MULTILINE) for text in _texts(configs))


def bootstraps(configs: Iterable[Path]) -> bool:
    """Return whether the last of these study configs that says so gets the images' Debian by bootstrapping.

    Set-up runs before any YAML parser is installed, so it looks for the one line ``source: …``.
    """
    source = "bootstrap"
    for text in _texts(configs):
        found = re.findall(r"^\s+source:\s*[\"']?(bootstrap|registry)\b", text, re.MULTILINE)
        source = found[-1] if found else source
    return source == "bootstrap"


def _texts(configs: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of the configs that can be read; Snakemake names a missing one itself."""
    for config in configs:
        with suppress(OSError):
            yield config.read_text(encoding="utf-8")
