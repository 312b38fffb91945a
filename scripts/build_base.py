"""Rule build_base: makes the base archive of every image."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.software import status
from tare.software.recipe import recipe_from

if TYPE_CHECKING:
    snakemake: Any = None

recipe = recipe_from("base", snakemake.params)
status.write(Path(snakemake.output[0]), status.base_status(recipe, Path(snakemake.log[0])))
