"""The study config: one typed source for defaults, validation and ``config/schemas/study.schema.json``.

Unknown keys and values are refused with the nearest valid name. Nothing here starts a process or reads data.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, ValidationError, model_validator
from pydantic_core import ErrorDetails

from tare.variants import STEPS, Contrast, Entry, Variant, base_of
from tare.workloads.declaration import Level, Workload
from tare.workloads.registry import WORKLOADS

RUNTIMES = ("host", "chroot", "chroot-userns", "docker", "docker-pure", "docker-hardened", "crun")
STACKS = ("hpc", "torch", "torch-cuda")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class ConfigError(ValueError):
    """A config that cannot be used; the message names the entry, what is allowed and the fix."""


class Comparison(Entry):
    """One pair that gets a verdict: cost in ``treatment`` ÷ cost in ``reference``."""

    treatment: str = Field(description="The runtime whose cost is asked for.")
    reference: str = Field(description="The runtime it is compared with.")


class CellEntry(Entry):
    """One workload and the factors that differ from its defaults; a list of levels makes one cell for each."""

    workload: str = Field(description="What is run.", json_schema_extra={"enum": [*sorted(WORKLOADS)]})
    stack: str | None = Field(None, description="Another version of the workload's stack (see `stacks`).")
    factors: dict[str, StrictInt | StrictStr | list[StrictInt | StrictStr]] = Field(
        default_factory=dict, description="Factor and its level or levels."
    )
    runtimes: tuple[str, ...] | None = Field(
        None, description="Runtimes of this cell; null: all those of the study."
    )


class StackVersion(Entry):
    """A further version of a stack, side by side with the others."""

    recipe: Literal["hpc", "torch", "torch-cuda"] = Field(
        description="The folder in containers/ it is built from."
    )
    lock: str = Field(description="The lock it installs: envs/<lock>.lock.txt and envs/<lock>.debs.lock.")


class Disturbance(Entry):
    """Limits beyond which a run is flagged `disturbed`. They never look at the ratio."""

    others_cpu: Annotated[float, Field(gt=0, le=1)] = Field(
        0.10, description="Share of the machine's CPU time taken by other processes during the run."
    )
    steal: Annotated[float, Field(gt=0, le=1)] = Field(
        0.05, description="Share of CPU time stolen by the hypervisor during the run."
    )
    throttled: Annotated[float, Field(gt=0, le=1)] = Field(
        0.01, description="Share of the run in which the CPU quota throttled it."
    )
    swap_pages: Annotated[int, Field(ge=0)] = Field(
        0, description="Pages swapped in or out during the run that are still no disturbance."
    )


class Base(Entry):
    """Where the images' Debian comes from."""

    source: Literal["bootstrap", "registry"] = Field(
        "bootstrap",
        description="bootstrap: made here from Debian packages, no image registry needed; registry: `image`.",
    )
    image: str | None = Field(None, description="For `registry`: name@sha256:… (a tag alone is refused).")
    mirror: str = Field(
        "auto",
        description="Debian mirror: auto (apt's own configuration, else mmdebstrap's default) or a URL.",
    )
    snapshot: str | None = Field(
        None,
        description="URL of a Debian snapshot archive, tried when the mirror no longer has a locked version.",
    )

    @model_validator(mode="after")
    def _registry_needs_digest(self) -> Base:
        if self.source == "registry" and not re.search(r"@sha256:[0-9a-f]{64}$", self.image or ""):
            raise ValueError(
                "software.base.image must be pinned as name@sha256:<64 hex digits> when source is registry"
            )
        return self


class Software(Entry):
    """How the software is obtained."""

    base: Base = Field(default_factory=lambda: Base(), description="Base of every image.")


class Data(Entry):
    """Folders with real data in the original formats; null: a deterministic generated set of the same shape."""

    mnist: str | None = Field(
        None, description="Folder with train-images-idx3-ubyte and train-labels-idx1-ubyte."
    )
    cifar10: str | None = Field(None, description="Folder with data_batch_1.bin … data_batch_5.bin.")


class Study(Entry):
    """One study: what is compared, on what, how often."""

    study: str = Field("quick", description="Name of the study and of its folder in results/.")
    seed: Annotated[int, Field(ge=0)] = Field(
        20260101, description="Seeds the order in every block, the data and the training."
    )
    blocks: Annotated[int, Field(ge=2)] = Field(
        5, description="Randomised rounds of every cell; raising it measures only the new ones."
    )
    margin: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.05, description="Equivalence margin m: within [1/(1+m), 1+m] a cost ratio counts as equivalent."
    )
    runtimes: tuple[str, ...] = Field(
        ("host", "chroot", "docker"), description="How a process of a stack is started."
    )
    comparisons: tuple[Comparison, ...] = Field(
        (
            Comparison(treatment="docker", reference="chroot"),
            Comparison(treatment="chroot", reference="host"),
            Comparison(treatment="docker", reference="host"),
        ),
        description="The pairs that get a verdict.",
    )
    control: str | None = Field(
        None, description="Runtime that runs twice in a block; null: the reference of the first comparison."
    )
    variants: dict[str, Variant] = Field(
        default_factory=dict, description="Further runtimes, made from one with some features changed."
    )
    ladder: tuple[str, ...] = Field(
        (), description="Runtimes from the host to the container, each adding features to the one before it."
    )
    star: tuple[str, ...] = Field(
        (),
        description="Variants of docker that leave one default out: docker ÷ each is what that default costs.",
    )
    options: tuple[str, ...] = Field(
        (),
        description="Variants with an option that is no default: each ÷ its base as it is, is what the option costs.",
    )
    cells: tuple[CellEntry, ...] = Field(
        (
            CellEntry(workload="startup"),
            CellEntry(workload="hpcc"),
            CellEntry(workload="hpcg"),
            CellEntry(workload="memory"),
            CellEntry(workload="syscall"),
            CellEntry(workload="files-small"),
            CellEntry(workload="fio-randread"),
            CellEntry(workload="net-latency"),
            CellEntry(workload="train-torch-fcn5"),
            CellEntry(workload="train-torch-alexnet"),
        ),
        description="The rows of the study.",
    )
    threads: Literal["effective"] | Annotated[int, Field(ge=1)] = Field(
        "effective", description="Threads of every pool: effective CPUs (affinity and quota) or a number."
    )
    max_attempts: Annotated[int, Field(ge=1, le=10)] = Field(
        2, description="How often a disturbed block is measured in all."
    )
    run_timeout_seconds: Annotated[int, Field(ge=1)] = Field(
        600, description="A run that takes longer is ended and counts as failed."
    )
    disturbance: Disturbance = Field(
        default_factory=lambda: Disturbance(), description="Limits of a quiet run."
    )
    stacks: dict[str, StackVersion] = Field(
        default_factory=dict, description="Further versions of a stack: name → recipe and lock."
    )
    software: Software = Field(
        default_factory=lambda: Software(), description="How the software is obtained."
    )
    data: Data = Field(default_factory=lambda: Data(), description="Folders with real data.")

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if not NAME.fullmatch(self.study) or self.study in ("software", "data", "reference", "demo"):
            raise ValueError(
                f"study: {self.study!r} cannot be a folder's name here; "
                "use lower-case letters, digits, . _ - and none of software, data, reference, demo"
            )
        self._check_runtimes()
        everywhere = {
            *self.measured_runtimes(),
            *(name for cell in self.cells for name in cell.runtimes or ()),
        }
        for index, pair in enumerate(self.comparisons):
            for side in (pair.treatment, pair.reference):
                if side not in everywhere:
                    raise ValueError(
                        f"comparisons[{index}]: {side!r} is not among runtimes ({', '.join(sorted(everywhere))})"
                    )
            if pair.treatment == pair.reference:
                raise ValueError(f"comparisons[{index}]: treatment and reference are both {pair.treatment!r}")
        if self.control is not None and self.control not in self.measured_runtimes():
            raise ValueError(f"control: {self.control!r} is not among runtimes ({', '.join(self.runtimes)})")
        for name in self.stacks:
            if not NAME.fullmatch(name) or name in STACKS:
                raise ValueError(f"stacks: {name!r} must be a new name of lower-case letters, digits, . _ -")
        _unique("cells", [cell.id for cell in self.expand()])
        return self

    def _check_runtimes(self) -> None:
        for name in self.variants:
            if not NAME.fullmatch(name) or name in RUNTIMES:
                raise ValueError(
                    f"variants: {name!r} must be a new name of lower-case letters, digits, . _ -"
                )
        known = [*RUNTIMES, *self.variants]
        lists = [("runtimes", self.runtimes), ("ladder", self.ladder), ("star", self.star)]
        lists += [("options", self.options)]
        lists += [(f"cells: {cell.workload}: runtimes", cell.runtimes or ()) for cell in self.cells]
        for entry, names in lists:
            _unique(entry, names)
            for name in names:
                if name not in known:
                    raise ValueError(f"{entry}: {name!r} is not possible; {nearest(name, known)}")
        for entry, names in (("star", self.star), ("options", self.options)):
            for name in names:
                if name not in self.variants or self.variants[name].base == "host":
                    raise ValueError(f"{entry}: {name!r} must be a variant whose base is docker or crun")
        if len(self.ladder) == 1:
            raise ValueError("ladder: one runtime is no ladder; list at least two, or none")
        for cell in self.cells:
            if cell.runtimes is not None and not cell.runtimes:
                raise ValueError(
                    f"cells: {cell.workload}: runtimes is empty; list at least one, or leave it out"
                )

    def measured_runtimes(self) -> tuple[str, ...]:
        """Return every runtime a cell without a list of its own is measured in, each once, in order."""
        docker = ("docker",) if self.star else ()
        plain = [self.plain(name) for name in self.options]
        return tuple(
            dict.fromkeys((*self.runtimes, *self.ladder, *docker, *plain, *self.star, *self.options))
        )

    def contrasts(self, cell: Cell) -> tuple[Contrast, ...]:
        """Return the pairs of runtimes that get a verdict in ``cell``; of each both sides are measured there.

        Of the ladder only steps between neighbours: a label says what one step adds, not what several do.
        """
        there = cell.runtimes
        found = [Contrast("runtime", None, p.treatment, p.reference) for p in self.comparisons]
        found += [
            Contrast("ladder", self.step(upper), upper, lower)
            for lower, upper in itertools.pairwise(self.ladder)
        ]
        found += [Contrast("star", self.step(name), "docker", name) for name in self.star]
        found += [Contrast("option", self.step(name), name, self.plain(name)) for name in self.options]
        return tuple(one for one in found if one.treatment in there and one.reference in there)

    def plain(self, option: str) -> str:
        """Return what an option is compared with: its base as it is, by whichever name the study has it."""
        base = self.base(option)
        same = (
            name
            for name, variant in self.variants.items()
            if variant == Variant(base=variant.base, label=variant.label) and variant.base == base
        )
        return next(same, base)

    def step(self, runtime: str) -> str:
        """Return what a runtime changes, in the report's words."""
        variant = self.variants.get(runtime)
        return variant.label if variant else STEPS.get(runtime, runtime)

    def expand(self) -> tuple[Cell, ...]:
        """Return the cells in the order of the config, lists of levels multiplied out."""
        return tuple(cell for entry in self.cells for cell in _expand(entry, self))

    def control_among(self, runtimes: Sequence[str]) -> str:
        """Return which of ``runtimes`` runs twice: the one asked for, a comparison's reference, or the first."""
        asked = () if self.control is None else (self.control,)
        references = (pair.reference for pair in self.comparisons)
        wanted: tuple[str, ...] = (*asked, *references, *runtimes)
        return next(name for name in wanted if name in runtimes)

    def base(self, runtime: str) -> str:
        """Return the runtime that a variant is made from, or the name itself."""
        return base_of(runtime, self.variants)

    def recipe(self, stack: str) -> tuple[str, str]:
        """Return (folder in containers/, name of the lock in envs/) of a stack."""
        version = self.stacks.get(stack)
        return (version.recipe, version.lock) if version else (stack, stack)


class Cell(Entry):
    """One workload with one level of each factor."""

    workload: str
    stack: str
    factors: dict[str, int | str]
    runtimes: tuple[str, ...]
    control: str

    @property
    def spec(self) -> Workload:
        """The facts of the workload."""
        return WORKLOADS[self.workload]

    @property
    def id(self) -> str:
        """The workload and what differs from its defaults, e.g. ``train-torch-fcn5+batch=1024``."""
        differing = {k: v for k, v in sorted(self.factors.items()) if v != self.spec.factors[k].default}
        if self.stack != self.spec.stack:
            differing["stack"] = self.stack
        return "+".join([self.workload, *(f"{k}={v}" for k, v in differing.items())])


def _unique(entry: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{entry}: {name!r} is listed twice; remove one")
        seen.add(name)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return “did you mean …? allowed: …” for a name that is not allowed."""
    allowed = [str(a) for a in allowed]
    folded = {a.lower(): a for a in allowed}
    close = difflib.get_close_matches(str(name).lower(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[close[0]]!r}? " if close else ""
    return f"{hint}allowed: {', '.join(allowed) or 'none'}"


def _expand(entry: CellEntry, study: Study) -> Iterable[Cell]:
    spec = WORKLOADS.get(entry.workload)
    if spec is None:
        raise ValueError(f"cells: unknown workload {entry.workload!r}; {nearest(entry.workload, WORKLOADS)}")
    stack = entry.stack or spec.stack
    known = [spec.stack, *(n for n, v in study.stacks.items() if v.recipe == spec.stack)]
    if stack not in known:
        raise ValueError(f"cells: {entry.workload} cannot use stack {stack!r}; {nearest(stack, known)}")
    axes: list[list[tuple[str, Level]]] = []
    for name, factor in spec.factors.items():
        given = entry.factors.get(name, factor.default)
        levels = given if isinstance(given, list) else [given]
        if not levels:
            raise ValueError(f"cells: {entry.workload}: factor {name!r} has an empty list of levels")
        axes.append([(name, _level(entry.workload, name, level)) for level in levels])
    for name in entry.factors:
        if name not in spec.factors:
            raise ValueError(f"cells: {entry.workload} has no factor {name!r}; {nearest(name, spec.factors)}")
    runtimes = entry.runtimes or study.measured_runtimes()
    control = study.control_among(runtimes)
    for chosen in itertools.product(*axes):
        yield Cell(
            workload=entry.workload, stack=stack, factors=dict(chosen), runtimes=runtimes, control=control
        )


def _level(workload: str, name: str, level: Level) -> Level:
    factor = WORKLOADS[workload].factors[name]
    if level in factor.allowed and not isinstance(level, bool):
        return level
    numbers = factor.numbers or not factor.allowed
    if numbers and isinstance(level, int) and not isinstance(level, bool) and level >= 1:
        return level
    allowed = [*map(str, factor.allowed), *(["an integer ≥ 1"] if numbers else [])]
    raise ValueError(f"cells: {workload}: {name}={level!r} is not possible; {nearest(str(level), allowed)}")


def load(raw: Mapping[str, Any]) -> Study:
    """Return the typed study of a parsed YAML mapping; raises ``ConfigError`` with one line per fault."""
    try:
        return Study.model_validate(dict(raw))
    except ValidationError as error:
        lines = [_describe(detail) for detail in error.errors()]
        raise ConfigError(
            "\n".join(["The study config cannot be used:", *(f"  - {line}" for line in lines)])
        ) from None


def _describe(detail: ErrorDetails) -> str:
    entry = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        *parents, key = (part for part in detail["loc"])
        return f"{entry}: unknown key; {nearest(str(key), _fields_at(parents))}"
    if "factors" in detail["loc"] and str(detail["type"]).startswith(("int_", "string_", "list_")):
        return f"{entry}: {detail['input']!r} is not possible; a level is a text or a whole number, or a list of them"
    if detail["type"] == "literal_error":
        expected = [
            part.strip("'\" ")
            for part in re.split(r", | or ", str(detail.get("ctx", {}).get("expected", "")))
        ]
        return f"{entry}: {detail['input']!r} is not possible; {nearest(str(detail['input']), expected)}"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{entry}: {message} (given: {detail['input']!r})" if entry else message


def _fields_at(path: Iterable[int | str]) -> list[str]:
    schema = Study.model_json_schema()
    node: dict[str, Any] = schema
    for part in path:
        if isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(part) or node.get("additionalProperties") or {}
        node = _resolve(node, schema)
    return sorted(node.get("properties", {}))


def _resolve(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    if not reference:
        return node
    target: dict[str, Any] = schema["$defs"][reference.rsplit("/", 1)[-1]]
    return target


def json_schema() -> str:
    """Return the JSON schema of the config as it stands in config/schemas/study.schema.json."""
    return json.dumps(Study.model_json_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def digest(value: object) -> str:
    """Return the sha256 (hex) of ``value`` as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
