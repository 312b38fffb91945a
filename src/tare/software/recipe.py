"""What a stack is built from: a folder of ``containers/``, the locks, the base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.config import Base
from tare.software.locks import StackLock

ENVS = Path("envs")
CONTAINERS = Path("containers")


@dataclass(frozen=True)
class Recipe:
    """What a stack is built from."""

    stack: str
    folder: Path  # containers/<recipe>
    lock: StackLock
    base_lock: StackLock
    base_folder: Path  # containers/base
    base: Base


def recipe_files(recipe: Path) -> list[Path]:
    """Return every file of a recipe's folder, sorted; they all belong to the key of its image."""
    return sorted(path for path in recipe.rglob("*") if path.is_file())


def recipe_from(stack: str, params: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a job from its ``params`` (``recipe``, ``lock`` and ``base``, the config's entry)."""
    return Recipe(
        stack=stack,
        folder=CONTAINERS / params.get("recipe", "base"),
        lock=StackLock(ENVS, params.get("lock", "base")),
        base_lock=StackLock(ENVS, "base"),
        base_folder=CONTAINERS / "base",
        base=Base.model_validate(params["base"]),
    )
