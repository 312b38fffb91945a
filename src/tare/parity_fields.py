"""The registry behind ``tare.parity``: what each recorded field means when it differs. Standard library only."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

#: must be equal, else the runs did not do the same work with the same software
REQUIRED = "required"
#: may differ in a pair with `host` (interpreter build, glibc, package revision); between images it must not
USERLAND = "userland"
#: is the treatment itself: recorded and listed, never a fault
ISOLATION = "isolation"
#: CPU speculation flags: listed, because they alone can explain a difference (case of seccomp in old kernels)
SPECULATION = "speculation"
#: measured, volatile, or compared elsewhere
IGNORED = "ignored"

CLASSES = (REQUIRED, USERLAND, ISOLATION, SPECULATION, IGNORED)


class Rule(NamedTuple):
    """What holds for the fields whose dotted name ``pattern`` matches whole; the first rule that matches counts."""

    pattern: str
    kind: str
    meaning: str


RULES: tuple[Rule, ...] = (
    Rule(r"node\..*", REQUIRED, "the machine or its settings"),
    # what the launch was: the worker's own view of it (process.*) is what counts
    Rule(r"launch\.image_digest", USERLAND, "content of the image or root filesystem"),
    Rule(r"launch\.(stack|lock_sha256)", REQUIRED, "software that was asked for"),
    Rule(r"launch\.data_sha256", REQUIRED, "content of the data set"),
    Rule(r"launch\.backing(\..*)?", REQUIRED, "device, file system or mount options under the test files"),
    Rule(r"launch\.(options|engine)(\..*)?", ISOLATION, "what the runtime was told and what the engine did"),
    Rule(r"launch\..*", IGNORED, "follows from the runtime"),
    # CPU and memory that the process may use
    Rule(r"process\.(affinity|quota_cpus|effective_cpus)", REQUIRED, "CPU set or quota"),
    Rule(r"process\.environment\..*", REQUIRED, "environment variable"),
    Rule(r"process\.mounts\.data\.(device|type)", REQUIRED, "device or file system of the data"),
    Rule(r"process\.mounts\..*", ISOLATION, "mounts"),
    Rule(r"process\.kernel", REQUIRED, "kernel"),
    Rule(r"process\.huge_pages\.free", IGNORED, "free huge pages"),
    Rule(r"process\.(huge_pages\..*|clock_source)", REQUIRED, "kernel setting"),
    # userland
    Rule(
        r"process\.interpreter\.(pgo|lto)", USERLAND, "profile- or link-time optimisation of the interpreter"
    ),
    Rule(r"process\.interpreter(\..*)?", USERLAND, "build of the interpreter"),
    Rule(r"process\.glibc", USERLAND, "C library"),
    # isolation
    Rule(r"process\.status\.Specul.*", SPECULATION, "speculation mitigation of this process"),
    Rule(r"process\.shm\.free_bytes", IGNORED, "free shared memory"),
    Rule(r"process\..*", ISOLATION, "seccomp, capabilities, namespaces, limits, user, cgroup"),
    # software
    Rule(r"software\.packages(\..*)?", USERLAND, "package revision"),
    Rule(r"software(\..*)?", REQUIRED, "framework build, BLAS or oneDNN kernel, thread pools"),
    # the work done
    Rule(r"check\.work(\..*)?", REQUIRED, "the work done"),
    Rule(r"check\.(parameters|samples_.*|data_.*|n|nb|p|q|ranks|threads)", REQUIRED, "the work done"),
    Rule(r"check(\..*)?", IGNORED, "measured, or compared as losses"),
)

#: option of a launch → what else it changes that is then its treatment, and must be equal where it is equal.
#: Effective CPUs and threads are never among them: a quota that bites is another machine, not a cost.
TREATMENTS: Mapping[str, str] = {
    "launch.options.cpus": r"process\.quota_cpus",
    "launch.options.cpuset": r"process\.affinity",
    "launch.options.cap_add": r"software\.variables\.OMPI_MCA_btl_vader_single_copy_mechanism",
}

#: libraries whose build decides the speed of the work itself, wherever they come from
KERNEL_LIBRARY = re.compile(r"open_?blas|lib(c?blas|lapack)|mkl|blis|atlas|dnnl|onednn", re.IGNORECASE)


@functools.cache
def rule_of(field: str) -> Rule:
    """Return the rule of a dotted field; raises ``KeyError`` for a field that no rule knows."""
    for rule in RULES:
        if re.fullmatch(rule.pattern, field):
            return rule
    raise KeyError(f"no parity rule for field {field!r}; add one to tare.parity_fields.RULES")


def treated(left: Mapping[str, Any], right: Mapping[str, Any]) -> re.Pattern[str] | None:
    """Return what matches the fields that are the treatment of this pair (flattened fingerprints), None for none."""
    patterns = [pattern for option, pattern in TREATMENTS.items() if left.get(option) != right.get(option)]
    return re.compile("|".join(patterns)) if patterns else None


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as dotted field → value; lists stay whole."""
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        field = f"{prefix}{name}"
        if isinstance(inner, Mapping) and inner:
            flat.update(flatten(inner, f"{field}."))
        else:
            flat[field] = None if isinstance(inner, Mapping) else inner
    return flat


def library_key(path: str, across_userlands: bool) -> str:
    """Return under which name a mapped library is compared.

    Within one image that is its path. Across userlands it is the path inside site-packages or dist-packages for
    a wheel's library, else the file's name.
    """
    if not across_userlands:
        return path
    _, found, inside = path.rpartition("-packages/")
    return inside if found else path.rpartition("/")[2]


def library_kind(key: str, across_userlands: bool) -> str:
    """Return the class of a library that differs: the framework's own and BLAS must be equal everywhere.

    Across userlands only a wheel's library has folders in its key.
    """
    own = "/" in key or KERNEL_LIBRARY.search(key)
    return USERLAND if across_userlands and not own else REQUIRED
