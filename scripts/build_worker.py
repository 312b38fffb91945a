"""Rule build_worker: builds the wheel that runs inside every runtime."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare import __version__
from tare.software.worker_wheel import build_worker

if TYPE_CHECKING:
    snakemake: Any = None

wheel = build_worker(Path.cwd(), Path(snakemake.output[0]).parent, __version__)
Path(snakemake.log[0]).write_text(f"{wheel.name}\n", encoding="utf-8")
