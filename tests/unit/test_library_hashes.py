"""Sums of libraries: from the manifest, from files, from the cache."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tare import library_hashes
from tare.library_hashes import host_hashes, image_hashes, is_code


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/usr/lib/libc.so.6", True),
        ("/opt/x/_C.cpython-311-x86_64-linux-gnu.so", True),
        ("/usr/bin/python3.11", True),
        ("/usr/sbin/tool", True),
        ("/usr/lib/locale/C.utf8/LC_CTYPE", False),
        ("/data/train-images-idx3-ubyte", False),
        ("/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache", False),
    ],
)
def test_is_code(path: str, code: bool) -> None:
    assert is_code(path) is code


def test_image_sums_come_from_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path))
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "ab12.libraries.json").write_text(json.dumps({"/usr/lib/a.so": "1" * 64}))
    assert image_hashes("sha256:ab12", ["/usr/lib/b.so", "/usr/lib/a.so"]) == {
        "/usr/lib/a.so": "1" * 64,
        "/usr/lib/b.so": None,
    }
    assert image_hashes("sha256:absent", ["/usr/lib/a.so"]) == {"/usr/lib/a.so": None}


def test_host_sums_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, cache = tmp_path / "liba.so", tmp_path / "cache" / "sums.json"
    library.write_bytes(b"content")
    expected = {str(library): hashlib.sha256(b"content").hexdigest(), "/nowhere/libb.so": None}
    assert host_hashes([str(library), "/nowhere/libb.so"], cache) == expected
    monkeypatch.setattr(library_hashes, "_sha256", lambda path: pytest.fail(f"hashed {path} again"))
    assert host_hashes([str(library), "/nowhere/libb.so"], cache) == expected
    assert [path.name for path in cache.parent.iterdir()] == ["sums.json"]


def test_changed_file_is_hashed_again(tmp_path: Path) -> None:
    library, cache = tmp_path / "liba.so", tmp_path / "sums.json"
    library.write_bytes(b"one")
    first = host_hashes([str(library)], cache)
    library.write_bytes(b"two")  # as long as before
    os.utime(library, ns=(1, 1))
    assert host_hashes([str(library)], cache) != first
    assert host_hashes([str(library)], cache)[str(library)] == hashlib.sha256(b"two").hexdigest()


@pytest.mark.parametrize("content", ["", "{half", "[1]"])
def test_damaged_cache_is_made_again(tmp_path: Path, content: str) -> None:
    library, cache = tmp_path / "liba.so", tmp_path / "sums.json"
    library.write_bytes(b"one")
    cache.write_text(content)
    assert host_hashes([str(library)], cache)[str(library)] == hashlib.sha256(b"one").hexdigest()
    assert len(json.loads(cache.read_text())) == 1


def test_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    library, blocked = tmp_path / "liba.so", tmp_path / "file"
    library.write_bytes(b"one")
    blocked.write_text("")
    sums = host_hashes([str(library)], blocked / "sums.json")
    assert sums[str(library)] == hashlib.sha256(b"one").hexdigest()
