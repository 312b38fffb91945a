"""The docker-archive: readable by tar, its layer the archive itself, its id a function of the content alone."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from tare.software.docker_archive import docker_archive, image_config

EPOCH = 1_700_000_000


@pytest.mark.parametrize("size", [0, 511, 512, 3_000_000])
def test_the_layer_is_the_archive_byte_for_byte(tmp_path: Path, size: int) -> None:
    layer = tmp_path / "rootfs.tar"
    layer.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    digest = f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"
    config = image_config(digest, EPOCH, {"tare": "hpc"})
    written = b"".join(docker_archive(layer, config, digest, "tare/hpc:123"))
    with tarfile.open(fileobj=io.BytesIO(written), mode="r:") as tar:
        read = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    manifest = json.loads(read["manifest.json"])
    assert manifest == [
        {"Config": "config.json", "Layers": [f"{digest[7:]}/layer.tar"], "RepoTags": ["tare/hpc:123"]}
    ]
    assert read[manifest[0]["Config"]] == config
    assert read[manifest[0]["Layers"][0]] == layer.read_bytes()
    assert len(written) % 512 == 0


def test_the_config_says_digest_date_and_labels_and_nothing_of_the_machine() -> None:
    config = json.loads(image_config("sha256:ab", EPOCH, {"tare": "hpc"}))
    assert config["rootfs"] == {"diff_ids": ["sha256:ab"], "type": "layers"}
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert config["config"]["Labels"] == {"tare": "hpc"}
    assert [part.partition("=")[0] for part in config["config"]["Env"]] == ["PATH"]


def test_the_order_of_labels_does_not_matter() -> None:
    assert image_config("d", 0, {"a": "1", "b": "2"}) == image_config("d", 0, {"b": "2", "a": "1"})
