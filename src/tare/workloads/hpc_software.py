"""Which HPC software is installed and which kernel its BLAS chose for this CPU."""

from __future__ import annotations

import ctypes
import re
from typing import Dict, Iterable, Optional


def openblas(library: str = "libopenblas.so.0") -> Optional[Dict[str, str]]:
    """Return configuration and kernel that OpenBLAS chose for this CPU, or None where it is not installed."""
    try:
        loaded = ctypes.CDLL(library)
        found = {}
        for name in ("config", "corename"):
            function = getattr(loaded, "openblas_get_" + name)
            function.restype = ctypes.c_char_p
            found[name] = function().decode("ascii", "replace")
        return found
    except (OSError, AttributeError):
        return None


def debian_packages(names: Iterable[str], status: str = "/var/lib/dpkg/status") -> Dict[str, Optional[str]]:
    """Return package → installed version, None for one that is not installed (or a system without dpkg)."""
    versions: Dict[str, Optional[str]] = dict.fromkeys(names)
    try:
        with open(status, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return versions
    for name in versions:
        entry = re.search(r"^Package: %s\n(?:.+\n)*?Version: (.+)$" % re.escape(name), text, re.MULTILINE)
        versions[name] = entry.group(1) if entry else None
    return versions
