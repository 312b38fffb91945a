"""Rule extract_rootfs: extracts an image's archive for chroot."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.software import status

if TYPE_CHECKING:
    snakemake: Any = None

image = status.read(Path(snakemake.input.image))
status.write(Path(snakemake.output[0]), status.rootfs_status(image, Path(snakemake.log[0])))
