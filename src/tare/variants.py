"""Variants: runtimes declared in the config from another one, with features left out or options added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Entry(BaseModel):
    """Base of every part of the config: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


#: what a variant may leave out of its base, in the order in which the ladder adds it
Feature = Literal["overlay", "pid", "ipc", "network", "cgroup", "capabilities", "seccomp", "apparmor", "init"]
FEATURES: tuple[str, ...] = get_args(Feature)
#: what can be left out, by base. crun: all docker's own features, on the files of `chroot`, without the engine
LEFT_OUT = {
    "docker": ("overlay", "pid", "ipc", "network", "capabilities", "seccomp", "apparmor", "init"),
    "crun": ("overlay", "pid", "ipc", "network", "cgroup", "capabilities", "seccomp", "apparmor"),
    "host": (),
}
#: options that are no default, and with which base each is possible
OPTIONS = ("cap_add", "log_driver", "cpus", "cpuset", "memory_bytes", "shm_bytes", "user_namespace")
POSSIBLE = {
    "docker": ("cap_add", "log_driver", "cpus", "cpuset", "memory_bytes", "shm_bytes"),
    "crun": ("cap_add", "cpus", "cpuset", "memory_bytes", "shm_bytes", "user_namespace"),
    "host": (),
}
#: what the report calls the step to a runtime that is no variant
STEPS = {"chroot": "userland", "chroot-userns": "userland", "docker": "engine"}


class Variant(Entry):
    """A runtime made from another one; what is not named stays as it is there."""

    base: Literal["docker", "crun", "host"] = Field(
        description="docker: as the engine does it; crun: what the engine does, by an OCI runtime on the files of "
        "`chroot`, without the engine; host: a plain process."
    )
    label: str = Field(description="What it adds or leaves out, in the report's words.")
    without: tuple[Feature, ...] = Field(
        (), description="Features of the base that are left out (network: the machine's own is used)."
    )
    network: Literal["none", "vxlan"] | None = Field(
        None,
        description="none: no network (docker); vxlan: an overlay between two network namespaces (host).",
    )
    cap_add: tuple[str, ...] = Field((), description="Capabilities added, e.g. SYS_PTRACE.")
    log_driver: str | None = Field(None, description="The engine's log driver instead of its default.")
    cpus: Annotated[float, Field(gt=0)] | Literal["all"] | None = Field(
        None, description="CPU quota in CPUs; all: as many as the machine has."
    )
    cpuset: str | None = Field(None, description="CPUs by number (0-3,8); all: every one of the machine.")
    memory_bytes: Annotated[int, Field(ge=6 * 1024**2)] | None = Field(None, description="Memory limit.")
    shm_bytes: Annotated[int, Field(ge=1)] | None = Field(None, description="Size of /dev/shm.")
    user_namespace: bool = Field(False, description="Run in a user namespace (crun).")

    @model_validator(mode="after")
    def _possible(self) -> Variant:
        for feature in self.without:
            if feature not in LEFT_OUT[self.base]:
                allowed = ", ".join(LEFT_OUT[self.base]) or "nothing"
                raise ValueError(
                    f"without: {feature!r} cannot be left out of {self.base}; allowed: {allowed}"
                )
        for option in OPTIONS:
            if getattr(self, option) and option not in POSSIBLE[self.base]:
                allowed = ", ".join(POSSIBLE[self.base]) or "none"
                raise ValueError(
                    f"{option}: is not possible with base {self.base}; allowed options: {allowed}"
                )
        limits = [name for name in ("cpus", "cpuset", "memory_bytes") if getattr(self, name)]
        if limits and "cgroup" in self.without:
            raise ValueError(
                f"{limits[0]}: is a limit of the run's control group; take cgroup out of without"
            )
        if self.network and {"none": "docker", "vxlan": "host"}[self.network] != self.base:
            raise ValueError(f"network: {self.network} is not possible with base {self.base}")
        if self.network and "network" in self.without:
            raise ValueError("network is set and left out at once; remove one")
        return self


def base_of(runtime: str, variants: Mapping[str, Variant]) -> str:
    """Return the runtime that one of ``variants`` is made from, or the name itself."""
    return variants[runtime].base if runtime in variants else runtime


class Contrast(NamedTuple):
    """One pair of runtimes that gets a verdict. ``kind`` as in the table: runtime, ladder, star, option.

    ``level``: what the step changes, in the report's words; None for a pair of the study's `comparisons`.
    """

    kind: str
    level: str | None
    treatment: str
    reference: str
