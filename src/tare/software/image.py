"""A stack's image: its Dockerfile built without network on the base, normalised, loaded under its content digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tare.software import context, normalise
from tare.software.base import check_clock, ensure_base
from tare.software.builds import Built, recall, remember
from tare.software.contents import check_contents, write_libraries
from tare.software.context import build_context
from tare.software.debs import fetch_debs
from tare.software.engine import LABEL_BUILD, Engine
from tare.software.errors import SoftwareError
from tare.software.files import scratch, sha256_of_files
from tare.software.recipe import Recipe, recipe_files
from tare.software.wheels import fetch_wheels


@dataclass(frozen=True)
class Image:
    """A stack's image in the engine, and its archive in the cache."""

    digest: str
    image_id: str
    tag: str
    size_bytes: int


def ensure_image(recipe: Recipe) -> Image:
    """Return the image of a stack: from cache and engine when both have it, else loaded or built.

    Raises ``Skipped`` when this machine lacks an engine or a tool, ``SoftwareError`` when the build fails.
    """
    check_recipe(recipe)
    with Engine() as engine:
        base = ensure_base(recipe.base_lock, recipe.base, recipe.base_folder)
        key = image_key(recipe, base.digest)
        built = recall(key) or remember(key, _build(recipe, base, engine))
        tag = f"tare/{recipe.stack}:{built.digest.removeprefix('sha256:')[:12]}"
        image_id = engine.load(built.archive, built.digest, tag, recipe.lock.debs().epoch, {})
    write_libraries(built.digest)
    return Image(built.digest, image_id, tag, built.size)


def check_recipe(recipe: Recipe) -> None:
    """Raise ``SoftwareError`` for a recipe that cannot work on this base."""
    if not (recipe.folder / "Dockerfile").is_file():
        raise SoftwareError(
            f"{recipe.folder}/Dockerfile is absent; containers/README.md says how to add a stack"
        )
    suites = recipe.lock.debs().suite, recipe.base_lock.debs().suite
    if suites[0] != suites[1]:
        raise SoftwareError(
            f"{recipe.lock.debs_path} is of suite {suites[0]}, the base of {suites[1]}; "
            "write the base's suite into the .debs.in and `make relock`"
        )


def image_key(recipe: Recipe, base_digest: str) -> str:
    """Return the key of an image: hash of the base, every file of the recipe, the locks and the code that builds it."""
    code = [Path(module.__file__ or "") for module in (normalise, context)]
    files = [*recipe_files(recipe.folder), recipe.lock.wheels_path, recipe.lock.debs_path, *code]
    return f"image-{base_digest.removeprefix('sha256:')[:16]}-{sha256_of_files(files)[:32]}"


def _build(recipe: Recipe, base: Built, engine: Engine) -> Built:
    debs = recipe.lock.debs()
    check_clock(debs)
    fetch_debs(debs, recipe.base)
    fetch_wheels(recipe.lock)
    with scratch("image") as folder, engine.building() as labels:
        raw = folder / "raw.tar"
        tag = f"tare/build:{labels[LABEL_BUILD]}"
        engine.load(base.archive, base.digest, f"{tag}-base", debs.epoch, labels)
        arguments = {"BASE": f"{tag}-base", "SOURCE_DATE_EPOCH": str(debs.epoch)}
        with build_context(recipe.folder, debs.debs, recipe.lock, debs.epoch) as stream:
            engine.export(engine.build(stream, arguments, tag), raw, labels)
        built = Built(*normalise.normalise_into_cache(raw, debs.epoch))
    check_contents(built.archive, debs, recipe.lock.wheels())
    return built
