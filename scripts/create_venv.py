"""Rule create_venv: makes the host form of a stack."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.software import status
from tare.software.locks import StackLock
from tare.software.recipe import ENVS

if TYPE_CHECKING:
    snakemake: Any = None

lock = StackLock(ENVS, snakemake.params.lock)
status.write(
    Path(snakemake.output[0]), status.venv_status(snakemake.wildcards.stack, lock, Path(snakemake.log[0]))
)
