"""Deciding what set-up has to do: a pure function of the facts, and the plan in words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tare.setup import needs, pythons
from tare.setup.facts import Facts

APT = "apt-get install -y --no-install-recommends"
#: rough minutes of each step on two cores and an ordinary line, for the plan's last line
MINUTES = {"packages": 1.0, "engine": 0.2, "venv": 1.5, "software": 5.0, "measure": 8.0, "test": 15.0}


@dataclass(frozen=True)
class Plan:
    """What will be done. ``stops`` are reasons why it cannot go on, each with its command; ``notes`` are not."""

    goal: str
    packages: tuple[str, ...] = ()
    start_engine: bool = False
    venv: str | None = None
    python: str | None = None
    minutes: int = 0
    disk: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes_system(self) -> bool:
        """True when more than the checkout and the user's own cache is touched."""
        return bool(self.packages) or self.start_engine

    @property
    def does_nothing(self) -> bool:
        """True when set-up is complete."""
        return not (self.changes_system or self.venv)


def make_plan(facts: Facts, goal: str) -> Plan:
    """Return the plan for ``goal`` (``study`` or ``test``).

    A test session runs what the machine can run, so for ``test`` only the environment is a reason to stop;
    all else becomes a note, and the tests that need it are skipped with the same reason.
    """
    packages, package_stops, package_notes = _packages(facts)
    python, python_stop = _python(facts)
    if python is not None and not python.venv:
        packages = (needs.VENV_PACKAGE, *packages)
    engine_package, start_engine, engine_stop = _engine(facts)
    room, room_stops = _disk(facts, start_engine)
    folder_stops = _folders(facts)
    soft = [*package_stops, *engine_stop, *room_stops]
    if goal == "test":
        package_notes, soft = [*package_notes, *soft], []
    plan_packages = (*engine_package, *packages)
    venv = None if facts.venv.ready else facts.venv.why
    return Plan(
        goal=goal,
        packages=plan_packages,
        start_engine=start_engine,
        venv=venv,
        python=python.path if python else None,
        minutes=_minutes(facts, goal, bool(plan_packages), start_engine),
        disk=room,
        stops=(*python_stop, *folder_stops, *soft),
        notes=tuple(package_notes),
    )


def _may_install(facts: Facts) -> bool:
    return facts.root and facts.debian_like and facts.may_change_system


def _as_root(facts: Facts, command: str) -> str:
    return command if facts.root else f"sudo {command}"


def _by_hand(facts: Facts, packages: list[str]) -> str:
    """Return the exact command that installs ``packages``, or what to look for on another distribution."""
    if facts.debian_like:
        return _as_root(facts, f"{APT} {' '.join(packages)}")
    return f"with {facts.os_name}'s package manager, the equivalent of Debian's {', '.join(packages)}"


def _packages(facts: Facts) -> tuple[tuple[str, ...], list[str], list[str]]:
    """Return (packages to install, reasons to stop, notes)."""
    if _may_install(facts):
        return tuple(package.name for package in facts.missing), [], []
    required = [package for package in facts.missing if package.required]
    optional = [package for package in facts.missing if not package.required]
    stops, notes = [], []
    if required:
        purposes = "; ".join(f"{package.name} {package.purpose}" for package in required)
        stops.append(
            f"missing packages ({purposes}). Install them: {_by_hand(facts, [p.name for p in required])}. "
            "Or take the images' Debian from a registry: software.base.source: registry in config/config.yaml"
        )
    if not facts.has_subids and facts.bootstrap:
        user = facts.user
        stops.append(
            f"user {user} has no subordinate ids, which bootstrapping Debian without root needs. Give them: "
            f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
        )
    for purpose in dict.fromkeys(package.purpose for package in optional):
        names = [package.name for package in optional if package.purpose == purpose]
        notes.append(
            f"{purpose} will be skipped: {', '.join(names)} not installed. To have it: {_by_hand(facts, names)}"
        )
    return (), stops, notes


def _python(facts: Facts) -> tuple[pythons.Python | None, list[str]]:
    """Return (interpreter for the environment, reasons to stop)."""
    if facts.venv.action != "make":
        return None, []
    chosen = pythons.choose(facts.pythons, _may_install(facts))
    if chosen is not None:
        return chosen, []
    oldest = ".".join(map(str, pythons.OLDEST))
    if not facts.pythons:
        return None, [
            f"no Python {oldest} or newer was found, neither the distribution's nor on PATH. Debian 12 and "
            f"Ubuntu 24.04 have one; elsewhere install one and put it on PATH"
        ]
    command = _by_hand(facts, [needs.VENV_PACKAGE])
    return None, [f"{facts.pythons[0].path} cannot make virtual environments. Install the module: {command}"]


def _engine(facts: Facts) -> tuple[tuple[str, ...], bool, list[str]]:
    """Return (packages to install, whether to start the engine, reasons to stop)."""
    state = facts.engine
    if state.answers:
        return (), False, []
    if state.state == "unusable":
        return (), False, [state.detail]
    if state.state == "denied":
        return (), False, [_denied(facts)]
    if not facts.engine_is_default:
        fix = "Start that engine, or unset DOCKER_HOST to use the usual one"
        return (), False, [f"DOCKER_HOST is set and {state.detail}. {fix}"]
    if facts.root and facts.may_change_system and (facts.engine_installed or facts.debian_like):
        return () if facts.engine_installed else (needs.ENGINE_PACKAGE,), True, []
    return (), False, [f"{state.detail}. {_engine_by_hand(facts)}"]


def _denied(facts: Facts) -> str:
    said = f"permission denied on {facts.engine.address}: group docker may use it"
    if facts.in_docker_group:
        return (
            f"{said}, and this session began before {facts.user} was in it. Log in again, or: newgrp docker"
        )
    return f"{said}. sudo usermod -aG docker {facts.user}, then log in again"


def _engine_by_hand(facts: Facts) -> str:
    """Return the exact command that gives this user an engine."""
    if facts.rootless_socket:
        return f"A rootless engine answers: export DOCKER_HOST={facts.rootless_socket}"
    join = "" if facts.root else f" && sudo usermod -aG docker {facts.user} (then log in again)"
    start = "systemctl start docker" if facts.systemd else "service docker start"
    if facts.engine_installed:
        return f"Start it: {_as_root(facts, start)}{join if not facts.in_docker_group else ''}"
    if facts.debian_like:
        return f"Install and start one: {_as_root(facts, f'{APT} {needs.ENGINE_PACKAGE}')}{join}"
    return (
        f"Set-up installs one on Debian and Ubuntu only, and this is {facts.os_name}: install Docker Engine with its "
        f"package manager, then: {_as_root(facts, start)}{join}"
    )


def _folders(facts: Facts) -> list[str]:
    """Return a reason to stop for each folder that this user must be able to write and cannot."""
    remedies = {
        "checkout": f"sudo chown -R {facts.user} <the checkout>, or clone it again as {facts.user}",
        "cache": "set TARE_CACHE to a folder of your own (HOME may be another user's)",
    }
    return [
        f"{facts.disks[place].wanted} cannot be written by {facts.user}. {remedy}"
        for place, remedy in remedies.items()
        if not facts.disks[place].writable
    ]


def _disk(facts: Facts, start_engine: bool) -> tuple[tuple[str, ...], list[str]]:
    """Return (a line for each file system, reasons to stop)."""
    spaces = [] if facts.venv.ready else [needs.ENVIRONMENT_SPACE]
    spaces += needs.RESULTS_SPACE if facts.built else needs.STUDY_SPACE
    needed: dict[int, int] = defaultdict(int)
    where: dict[int, tuple[str, int]] = {}
    for space in spaces:
        if space.place == "engine" and not (facts.engine.answers or start_engine):
            continue
        disk = facts.disks[space.place]
        needed[disk.device] += space.size
        where.setdefault(disk.device, (disk.folder, disk.free))
    lines, stops = [], []
    for device, size in needed.items():
        folder, free = where[device]
        line = f"{folder}: up to {size / needs.GB:.1f} GB needed, {free / needs.GB:.1f} GB free"
        lines.append(line)
        if free < size:
            stops.append(
                f"the disk is too full ({line}). Make room, or move what is big: TARE_CACHE=<folder> for root "
                "filesystems, the engine's data-root for images, or a checkout on another disk"
            )
    return tuple(lines), stops


def _minutes(facts: Facts, goal: str, packages: bool, start_engine: bool) -> int:
    steps = {"packages": packages, "engine": start_engine, "venv": not facts.venv.ready}
    steps |= {"software": not facts.built, "measure": True} if goal == "study" else {"test": True}
    return max(1, round(sum(MINUTES[step] for step, happens in steps.items() if happens)))


def render(plan: Plan) -> str:
    """Return the plan for a person, one line a step; empty when nothing is to be done or said."""
    lines = [f"  install packages   {' '.join(plan.packages)}"] if plan.packages else []
    lines += ["  start              the Docker engine"] if plan.start_engine else []
    lines += [f"  make .venv         from {plan.python} ({plan.venv})"] if plan.python else []
    lines += [f"  extend .venv       {plan.venv}"] if plan.venv and not plan.python else []
    lines += [f"  disk               {line}" for line in plan.disk]
    lines += [f"  time               about {plan.minutes} min in all, less when it was done before"]
    if plan.does_nothing and not plan.stops:
        lines = []
    notes = [f"  note               {note}" for note in plan.notes]
    return "\n".join(["Set-up:", *lines, *notes]) if lines or notes else ""


def render_stops(plan: Plan) -> str:
    """Return the one message that names everything that keeps set-up from going on, with the commands."""
    return "\n".join(["Tare cannot go on yet:", *(f"  - {stop}" for stop in plan.stops)])
