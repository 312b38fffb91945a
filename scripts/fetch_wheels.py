"""Rule fetch_wheels: downloads a lock's wheels into the cache."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.software import status
from tare.software.recipe import recipe_from

if TYPE_CHECKING:
    snakemake: Any = None

recipe = recipe_from(snakemake.wildcards.stack, snakemake.params)
status.write(Path(snakemake.output[0]), status.wheels_status(recipe, Path(snakemake.log[0])))
