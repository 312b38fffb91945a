"""The Docker engine as a builder: images in, images out, and nothing left behind.

Everything made on the way (base, steps, containers) inherits a label of this one build from the base image, and
is removed by that label at the end, also when the build failed; what a killed build left is removed by the next.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from tare.identity import is_dead, owner_id
from tare.runtimes import engine as runtime_engine
from tare.runtimes.base import LABEL, LABEL_OWNER
from tare.setup import engine_probe
from tare.software.docker_archive import docker_archive, image_config
from tare.software.errors import Skipped, SoftwareError

LABEL_BUILD = "tare.build"
#: loading and exporting a gigabyte on a slow disk
CALL_SECONDS = 900
_LAST_LINES = 15
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NOISE = (" --->", "Removing intermediate container")


class Engine:
    """One connection to the engine; a context manager."""

    def __init__(self) -> None:
        """Raises ``Skipped`` with the remedy when no engine can be used by this user."""
        if missing := runtime_engine.unavailable():
            raise Skipped(str(missing))
        address = engine_probe.address(os.environ)
        # Any: docker ships no types for half of its calls
        self.api: Any = docker.APIClient(base_url=address, version="auto", timeout=CALL_SECONDS)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()

    def layer_of(self, image: str) -> tuple[str, str] | None:
        """Return (image id, content digest) of an image of one layer, None when the engine has no such image."""
        try:
            inspected = self.api.inspect_image(image)
        except ImageNotFound:
            return None
        layers = (inspected.get("RootFS") or {}).get("Layers") or []
        return inspected["Id"], layers[0] if len(layers) == 1 else ""

    def load(self, archive: Path, digest: str, tag: str, epoch: int, labels: Mapping[str, str]) -> str:
        """Make the archive an image named ``tag``; return its id. Nothing is copied when the engine has it already."""
        config = image_config(digest, epoch, {LABEL: tag.partition(":")[0], **labels})
        known = self.layer_of(tag)
        if known and known[1] == digest and not labels:
            return known[0]
        for message in self.api.load_image(docker_archive(archive, config, digest, tag)):
            if isinstance(message, Mapping) and message.get("error"):
                raise SoftwareError(f"the engine does not load {tag}: {message['error']}")
        loaded = self.layer_of(tag)
        if loaded is None or loaded[1] != digest:
            raise SoftwareError(
                f"the engine loaded {tag} with layer {loaded and loaded[1]}, expected {digest}"
            )
        return loaded[0]

    @contextlib.contextmanager
    def building(self) -> Iterator[dict[str, str]]:
        """Yield the labels of a new build; everything that carries them is removed at the end."""
        self._sweep()
        labels = {LABEL_BUILD: secrets.token_hex(8), LABEL_OWNER: owner_id()}
        try:
            yield labels
        finally:
            self._remove(f"{LABEL_BUILD}={labels[LABEL_BUILD]}")

    def _sweep(self) -> None:
        """Remove what builds have left whose process is dead."""
        for image in self.api.images(all=True, filters={"label": LABEL_BUILD}):
            labels = image.get("Labels") or {}
            if is_dead(labels.get(LABEL_OWNER, "")):
                self._remove(f"{LABEL_BUILD}={labels[LABEL_BUILD]}")

    def _remove(self, label: str) -> None:
        for container in self.api.containers(all=True, filters={"label": label}):
            with contextlib.suppress(APIError):
                self.api.remove_container(container["Id"], force=True, v=True)
        # A step can be removed only after the steps made from it: as many passes as there are steps.
        while images := self.api.images(all=True, filters={"label": label}):
            removed = [image["Id"] for image in images if self._remove_image(image["Id"])]
            if not removed:
                break

    def _remove_image(self, image: str) -> bool:
        try:
            self.api.remove_image(image, force=True, noprune=True)
        except ImageNotFound:
            return True
        except APIError:
            return False
        return True

    def build(self, context: IO[bytes], arguments: Mapping[str, str], tag: str) -> str:
        """Build a context (a tar stream) without network; return the id of the image.

        Raises ``SoftwareError`` with the failing step and its last lines.
        """
        lines: list[str] = []
        step = "before the first step"
        stream = self.api.build(
            fileobj=context,
            custom_context=True,
            network_mode="none",
            nocache=True,
            rm=True,
            forcerm=True,
            buildargs=dict(arguments),
            tag=tag,
            decode=True,
        )
        for message in stream:
            if "error" in message:
                detail = "\n".join(lines[-_LAST_LINES:])
                raise SoftwareError(
                    f"the Dockerfile failed at “{step}”: {message['error'].strip()}\n{detail}".strip()
                )
            text = _COLOURS.sub("", message.get("stream", ""))
            if text.startswith("Step "):
                step, lines = text.strip(), []
            else:
                lines += [line for line in text.splitlines() if line.strip() and not line.startswith(_NOISE)]
        built = self.id_of(tag)
        if built is None:
            raise SoftwareError("the engine built no image and named no error; look at its log")
        return built

    def id_of(self, image: str) -> str | None:
        """Return the id of an image, None when the engine has no such image."""
        try:
            return str(self.api.inspect_image(image)["Id"])
        except ImageNotFound:
            return None

    def export(self, image: str, target: Path, labels: Mapping[str, str]) -> None:
        """Write the root filesystem of an image, as a container made from it (never started) shows it, to a tar."""
        container = self.api.create_container(
            image, command=["/none"], network_disabled=True, labels=dict(labels)
        )
        try:
            with target.open("wb") as file:
                for chunk in self.api.export(container["Id"]):
                    file.write(chunk)
        finally:
            self.api.remove_container(container["Id"], force=True, v=True)

    def pull(self, reference: str) -> None:
        """Pull an image pinned by digest; raises ``SoftwareError`` with the remedy."""
        try:
            self.api.pull(reference)
        except DockerException as error:
            raise SoftwareError(
                f"software.base.image {reference} cannot be pulled: {error}; check the name and the registry, "
                "or use software.base.source: bootstrap, which needs no registry"
            ) from None
