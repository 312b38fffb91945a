# Reads and validates the config; the small functions the rules ask. No rule stands here.
import json
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(Path(workflow.basedir) / "src"))

from tare import config as tare_config
from tare import harness
from tare.software.workflow import get_base
from tare.software.workflow import get_native_sources as native_sources
from tare.software.workflow import get_programs
from tare.software.workflow import get_recipe_files as recipe_files
from tare.software.workflow import get_wheel, worker_code
from tare.workflow import announce, begin

try:
    study = tare_config.load(config)
except tare_config.ConfigError as error:
    raise WorkflowError(str(error))

if workflow.deployment_settings.deployment_method:
    raise WorkflowError(
        "--software-deployment-method (--sdm) cannot be used: Tare makes the software it compares by itself. "
        "Leave the option out."
    )

CELLS = {cell.id: cell for cell in study.expand()}

# Every job knows which Snakemake asked for it: a measurement whose workflow has died ends itself.
announce(study)
# Shell commands use the interpreter that runs Snakemake, whether or not its environment is active.
shell.prefix(
    f"export PATH={Path(sys.executable).parent}:$PATH PYTHONPATH={Path(workflow.basedir) / 'src'}; "
)


wildcard_constraints:
    study=r"[a-z0-9][a-z0-9._-]*",
    stack=r"[a-z0-9][a-z0-9._-]*",
    dataset=r"[a-z0-9]+",
    program="|".join(get_programs()),
    cell=r"[^/]+",
    block=r"[1-9][0-9]*",


def get_stacks():
    """The stacks this study's cells need."""
    return sorted({cell.stack for cell in CELLS.values()})


def recipe_of(wildcards):
    """The folder in containers/ a stack is built from."""
    return study.recipe(wildcards.stack)[0]


def lock_of(wildcards):
    """The name of a stack's locks in envs/."""
    return study.recipe(wildcards.stack)[1]


def get_blocks(wildcards):
    """The block files of the study, in the order of config and number."""
    return [
        f"results/{study.study}/blocks/{cell}/{block}.parquet"
        for cell in CELLS
        for block in range(1, study.blocks + 1)
    ]


def get_tables():
    """The tables of the study."""
    return expand(
        "results/{study}/tables/{table}.parquet",
        study=study.study,
        table=["runs", "samples", "comparisons"],
    )


def get_figures():
    """Every figure of the study, as the report and the README show them."""
    return expand(
        "results/{study}/figures/{figure}.{form}",
        study=study.study,
        figure=[
            "overhead",
            "blocks",
            "epochs",
            "startup",
            "breakdown",
            "ladder",
            "options",
        ],
        form=["svg", "png"],
    )


def get_modules(*own):
    """The modules of the analysis a figure or the report is made by: those that all of them share, and its own."""
    shared = [
        "figures/compact",
        "figures/rule",
        "figures/style",
        "contrasts",
        "equality",
        "pairing",
        "statistics",
        "study_data",
        "units",
        "verdict",
    ]
    return expand("src/tare/analysis/{module}.py", module=[*shared, *own])


def get_software(wildcards):
    """The status files of what the runtimes of a cell stand on, its native program among them."""
    cell = CELLS[wildcards.cell]
    bases = tuple(study.base(runtime) for runtime in cell.runtimes)
    needed = {
        "image": any(base != "host" for base in bases),
        "rootfs": any(base.startswith(("chroot", "crun")) for base in bases)
        or any("overlay" in one.without for one in get_variants(cell).values()),
        "venv": "host" in bases,
    }
    folder = f"results/software/{cell.stack}"
    found = {form: f"{folder}/{form}.json" for form, wanted in needed.items() if wanted}
    if cell.spec.native:
        found["native"] = f"results/software/native/{cell.spec.native}.json"
    return found


def get_variants(cell):
    """The variants that a cell is measured in."""
    return {
        name: study.variants[name] for name in cell.runtimes if name in study.variants
    }


def get_dataset(wildcards):
    """The status file of a cell's data set, if it reads one."""
    dataset = CELLS[wildcards.cell].spec.dataset
    return {"dataset": f"results/data/{dataset}/dataset.json"} if dataset else {}


def get_measuring(wildcards):
    """Everything a measurement of this cell depends on beyond its inputs, as canonical JSON.

    Number of blocks, margin and comparisons are absent: they invalidate no finished block.
    """
    cell = CELLS[wildcards.cell]
    return json.dumps(
        {
            "workload": cell.workload,
            "stack": cell.stack,
            "factors": cell.factors,
            "seed": study.seed,
            "runtimes": cell.runtimes,
            "control": cell.control,
            "variants": {
                name: one.model_dump(exclude={"label"})
                for name, one in get_variants(cell).items()
            },
            "threads": None if study.threads == "effective" else study.threads,
            "max_attempts": study.max_attempts,
            "timeout_seconds": study.run_timeout_seconds,
            "disturbance": study.disturbance.model_dump(),
            "harness": harness.digest(),
        },
        sort_keys=True,
    )


def share_machine():
    """Give every rule but the measuring one a share of the machine, whatever profile or option says."""
    for each in workflow.rules:
        if each.name != "measure_block":
            each.resources["machine"] = 1
