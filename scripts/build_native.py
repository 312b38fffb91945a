"""Rule build_native: compiles one native program; a compiler's complaint becomes its status."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.software import status
from tare.software.locks import StackLock
from tare.software.native import LOCK
from tare.software.recipe import ENVS

if TYPE_CHECKING:
    snakemake: Any = None

made = status.native_status(
    snakemake.wildcards.program,
    StackLock(ENVS, LOCK),
    Path(snakemake.output.program),
    Path(snakemake.log[0]),
)
status.write(Path(snakemake.output.status), made)
