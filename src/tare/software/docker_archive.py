"""A docker-archive around a root filesystem: one layer, fixed dates, so that equal content gives an equal image.

The layer *is* the normalised archive, so ``RootFS.Layers[0]`` of the loaded image is the content digest.
Format: https://github.com/moby/docker-image-spec/blob/main/spec.md
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from tare.software.files import CHUNK

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_config(digest: str, epoch: int, labels: Mapping[str, str]) -> bytes:
    """Return the image's configuration; its SHA-256 is the image id."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "architecture": "amd64",
        "config": {"Env": [f"PATH={PATH}"], "Labels": dict(sorted(labels.items()))},
        "created": created,
        "history": [{"created": created, "created_by": "tare"}],
        "os": "linux",
        "rootfs": {"diff_ids": [digest], "type": "layers"},
    }
    return json.dumps(config, sort_keys=True).encode()


def docker_archive(archive: Path, config: bytes, digest: str, tag: str) -> Iterator[bytes]:
    """Yield the bytes of a docker-archive that ``docker load`` takes, without a second copy of the layer on disk."""
    layer = f"{digest.removeprefix('sha256:')}/layer.tar"
    manifest = json.dumps([{"Config": "config.json", "Layers": [layer], "RepoTags": [tag]}]).encode()
    for name, content in (("config.json", config), ("manifest.json", manifest)):
        yield _header(name, len(content)) + content + _padding(len(content))
    size = archive.stat().st_size
    yield _header(layer, size)
    with archive.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
    yield _padding(size) + bytes(2 * tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
