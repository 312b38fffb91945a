"""Images with the real engine: the same content digest wherever built, nothing left behind, faults told."""

from __future__ import annotations

import grp
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tare.config import Base
from tare.paths import cache_dir, libraries_path, rootfs_dir
from tare.runtimes import engine as runtime_engine
from tare.setup.capabilities import ORDINARY_UID
from tare.software import image as image_module
from tare.software import rootfs, status
from tare.software.base import ensure_base
from tare.software.engine import LABEL_BUILD
from tare.software.errors import SoftwareError
from tare.software.image import Image, ensure_image
from tare.software.locks import StackLock
from tare.software.recipe import Recipe

pytestmark = [pytest.mark.engine, pytest.mark.needs("mmdebstrap")]

DOCKERFILE = """\
ARG BASE
FROM ${BASE}
ARG SOURCE_DATE_EPOCH
COPY note.txt /etc/tiny-note
COPY debs /tmp/tare/debs
COPY wheels /tmp/tare/wheels
RUN test "$(ls /sys/class/net)" = lo
RUN echo volatile > /var/log/tiny.log; date > /root/.history; date +%N > /tmp/x; mkdir /opt/made; touch /opt/made/now
RUN python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.11/json
"""


def make_project(folder: Path, envs: Path, dockerfile: str = DOCKERFILE) -> Recipe:
    """A stack that adds nothing locked to the base: a second to build once the base is there."""
    (folder / "containers/tiny").mkdir(parents=True)
    (folder / "containers/base").mkdir()
    (folder / "containers/base/Dockerfile").write_text("FROM scratch\n")
    (folder / "containers/tiny/Dockerfile").write_text(dockerfile)
    (folder / "containers/tiny/note.txt").write_text("a note\n")
    shutil.copytree(envs, folder / "envs")
    snapshot = StackLock(envs, "base").debs().snapshot
    (folder / "envs/tiny.debs.lock").write_text(f"# suite bookworm\n# snapshot {snapshot}\n")
    (folder / "envs/tiny.lock.txt").write_text("# python 3.11 manylinux_2_28_x86_64\n")
    return recipe_in(folder)


def recipe_in(folder: Path) -> Recipe:
    containers, envs = folder / "containers", folder / "envs"
    base = StackLock(envs, "base")
    return Recipe("tiny", containers / "tiny", StackLock(envs, "tiny"), base, containers / "base", Base())


def seed(cache: Path, source: Path) -> None:
    """Give a fresh cache the packages that another has: downloads are not what is tested here."""
    if (source / "debs").is_dir():
        shutil.copytree(source / "debs", cache / "debs")


def left_behind() -> list[str]:
    """Containers and images of builds, and images without a name that carry this project's label."""
    api = runtime_engine.api()
    found = api.containers(all=True, filters={"label": LABEL_BUILD})
    found += api.images(all=True, filters={"label": LABEL_BUILD})
    return [item["Id"] for item in found]


@pytest.fixture(scope="module")
def workspace(
    tmp_path_factory: pytest.TempPathFactory, repository: Path, require: Callable[[str], None]
) -> Iterator[Path]:
    """A folder with a project, and a cache of its own; its images are removed at the end."""
    if os.geteuid() != 0:
        require("subids")
    users = cache_dir()
    folder = tmp_path_factory.mktemp("software")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_CACHE", str(folder / "cache"))
        seed(folder / "cache", users)
        make_project(folder / "project", repository / "envs")
        yield folder
    for tag in _tags():
        runtime_engine.api().remove_image(tag, force=True)


def _tags() -> list[str]:
    images = runtime_engine.api().images(filters={"reference": "tare/tiny*"})
    return [tag for image in images for tag in image["RepoTags"] or []]


@pytest.fixture(scope="module")
def built(workspace: Path) -> Image:
    """The tiny stack's image, built once."""
    return ensure_image(recipe_in(workspace / "project"))


@pytest.fixture
def other(workspace: Path, tmp_path: Path, built: Image) -> Callable[[str], Recipe]:
    """A function: the same project with another Dockerfile, in another folder, the base from the cache."""
    assert built

    def make(dockerfile: str) -> Recipe:
        return make_project(tmp_path / "other", workspace / "project/envs", dockerfile)

    return make


def archive_of(image: Image) -> Path:
    return cache_dir() / "archives" / f"{image.digest.removeprefix('sha256:')}.tar"


def test_the_image_carries_its_content_digest(built: Image) -> None:
    inspected = runtime_engine.api().inspect_image(built.image_id)
    assert inspected["RootFS"]["Layers"] == [built.digest]
    assert inspected["RepoTags"] == [f"tare/tiny:{built.digest[7:19]}"] == [built.tag]
    assert inspected["Config"]["Labels"] == {"tare": "tare/tiny"}
    assert f"sha256:{hashlib.sha256(archive_of(built).read_bytes()).hexdigest()}" == built.digest
    assert archive_of(built).stat().st_size == built.size_bytes


def test_nothing_of_the_build_is_left(built: Image) -> None:
    assert built
    assert left_behind() == []
    assert [*(cache_dir() / "tmp").iterdir()] == []


def test_the_archive_holds_the_recipes_work_and_no_traces(built: Image) -> None:
    with tarfile.open(archive_of(built)) as tar:
        members = {member.name: member for member in tar}
        note = tar.extractfile("etc/tiny-note")
        assert note is not None
        assert note.read() == b"a note\n"
    epoch = StackLock(cache_dir().parent / "project/envs", "base").debs().epoch
    assert max(member.mtime for member in members.values()) == epoch == members["opt/made/now"].mtime
    assert [name for name in members if name.startswith(("tare/", "data/", "tmp/", "var/log/"))] == []
    assert {"tare", "data", "tmp", "usr/bin/python3"} <= members.keys()
    assert not {"etc/resolv.conf", "etc/hostname", ".dockerenv", "root/.history"} & members.keys()


def test_another_build_elsewhere_gives_the_same_digest(
    built: Image, workspace: Path, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fresh cache, other folder, umask, time zone, language and host variables."""
    first_cache = cache_dir()
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "another cache"))
    for name, value in {"TZ": "Asia/Kathmandu", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "7"}.items():
        monkeypatch.setenv(name, value)
    seed(cache_dir(), first_cache)
    before = os.umask(0o077)
    try:
        again = ensure_image(make_project(tmp_path / "deep/er", repository / "envs"))
    finally:
        os.umask(before)
    assert workspace
    assert (again.digest, again.image_id) == (built.digest, built.image_id)


@pytest.mark.root
@pytest.mark.needs("chroot", "ordinary_user")
def test_an_ordinary_user_builds_the_same_digest(
    built: Image, user_dir: Path, repository: Path, require: Callable[[str], None]
) -> None:
    """In group docker, with subordinate ids that only a private mount namespace knows of."""
    if not shutil.which("newuidmap"):
        require("subids")
    make_project(user_dir / "project", repository / "envs")
    seed(user_dir / "cache", cache_dir())
    subprocess.run(["chown", "-R", f"{ORDINARY_UID}:{ORDINARY_UID}", str(user_dir)], check=True)
    (user_dir / "passwd").write_text(
        Path("/etc/passwd").read_text() + f"tareuser:x:{ORDINARY_UID}:{ORDINARY_UID}::{user_dir}:/bin/sh\n"
    )
    (user_dir / "subids").write_text("tareuser:300000:65536\n")
    for point in ("repository", "venv"):
        (user_dir / point).mkdir()
    script = f"""
        set -e
        for name in subuid subgid; do mount --bind {user_dir}/subids /etc/$name; done
        mount --bind {user_dir}/passwd /etc/passwd
        mount --bind {repository} {user_dir}/repository
        mount --bind {sys.prefix} {user_dir}/venv
        cd {user_dir}/project
        exec setpriv --reuid {ORDINARY_UID} --regid {ORDINARY_UID} --groups {grp.getgrnam("docker").gr_gid} \\
            env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME={user_dir} TARE_CACHE={user_dir}/cache \\
            PYTHONPATH={user_dir}/repository/src {user_dir}/venv/bin/python3 -c '
import json
from pathlib import Path
from tare.software import status
from tare.software.recipe import recipe_from
recipe = recipe_from("tiny", {{"recipe": "tiny", "lock": "tiny", "base": {{}}}})
print(json.dumps(status.image_status(recipe, Path("log"))))'
    """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["reasons"]) == ("ok", [])
    assert (found["digest"], found["image_id"]) == (built.digest, built.image_id)


def test_what_the_cache_has_is_not_built_again(
    built: Image, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_module, "_build", None)
    assert ensure_image(recipe_in(workspace / "project")) == built


def test_an_image_lost_by_the_engine_is_loaded_again_not_built(
    built: Image, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime_engine.api().remove_image(built.tag, force=True)
    monkeypatch.setattr(image_module, "_build", None)
    assert ensure_image(recipe_in(workspace / "project")) == built
    assert runtime_engine.api().inspect_image(built.tag)["Id"] == built.image_id


def test_every_file_of_the_recipe_belongs_to_the_key(built: Image, other: Callable[[str], Recipe]) -> None:
    recipe = other(DOCKERFILE)
    before = image_module.image_key(recipe, built.digest)
    (recipe.folder / "note.txt").write_text("another note\n")
    assert image_module.image_key(recipe, built.digest) != before
    assert ensure_image(recipe).digest != built.digest


def test_a_failing_step_is_told_with_its_last_lines(other: Callable[[str], Recipe], tmp_path: Path) -> None:
    recipe = other("ARG BASE\nFROM ${BASE}\nRUN echo fine\nRUN echo the cause; echo more >&2; exit 3\n")
    found = status.image_status(recipe, tmp_path / "log")
    assert found["status"] == "failed"
    assert found["digest"] is found["image_id"] is found["tag"] is None
    (reason,) = found["reasons"]
    assert "Step 4/4 : RUN echo the cause; echo more >&2; exit 3" in reason
    assert "returned a non-zero code: 3" in reason
    assert "the cause" in reason
    assert "more" in reason
    assert reason in (tmp_path / "log").read_text()
    assert left_behind() == []


def test_a_dockerfile_that_cannot_be_parsed_is_told(other: Callable[[str], Recipe], tmp_path: Path) -> None:
    found = status.image_status(other("ARG BASE\nFROM ${BASE}\nRUNN x\n"), tmp_path / "log")
    assert found["status"] == "failed"
    assert "RUNN" in found["reasons"][0]
    assert left_behind() == []


def test_the_network_is_absent(other: Callable[[str], Recipe]) -> None:
    connect = 'import socket; socket.create_connection((\\"1.1.1.1\\", 53), 5)'
    with pytest.raises(SoftwareError, match="Network is unreachable"):
        ensure_image(other(f'ARG BASE\nFROM ${{BASE}}\nRUN python3 -c "{connect}"\n'))


def test_a_dockerfile_that_leaves_a_locked_package_out_fails(other: Callable[[str], Recipe]) -> None:
    recipe = other("ARG BASE\nFROM ${BASE}\n")
    shutil.copy(recipe.base_lock.debs_path, recipe.lock.debs_path)
    lines = [
        line for line in recipe.lock.debs_path.read_text().splitlines() if line[:1] == "#" or "tzdata" in line
    ]
    recipe.lock.debs_path.write_text("\n".join(lines).replace("tzdata", "tzdata-absent") + "\n")
    folder = cache_dir() / "debs"
    assert folder.is_dir()
    with pytest.raises(SoftwareError, match=r"tzdata-absent: locked .*, in the image absent.*Dockerfile"):
        ensure_image(recipe)


def test_other_suites_and_absent_dockerfiles_are_refused(other: Callable[[str], Recipe]) -> None:
    recipe = other(DOCKERFILE)
    with pytest.raises(SoftwareError, match=r"nowhere/Dockerfile is absent"):
        ensure_image(replace(recipe, folder=recipe.folder.parent / "nowhere"))
    text = recipe.lock.debs_path.read_text()
    recipe.lock.debs_path.write_text(text.replace("bookworm", "bullseye"))
    with pytest.raises(SoftwareError, match="suite bullseye, the base of bookworm"):
        ensure_image(recipe)


def test_a_killed_builds_remains_are_removed_by_the_next(
    built: Image, other: Callable[[str], Recipe]
) -> None:
    """An image with the label of a build whose process is dead."""
    archive = archive_of(built)
    owner = subprocess.run(
        [sys.executable, "-c", "from tare.identity import owner_id; print(owner_id())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    from tare.software.engine import Engine

    with Engine() as engine:
        engine.load(
            archive, built.digest, "tare/build:dead-base", 0, {LABEL_BUILD: "dead", "tare.owner": owner}
        )
    assert left_behind() != []
    with pytest.raises(SoftwareError):
        ensure_image(other("ARG BASE\nFROM ${BASE}\nRUN false\n"))
    assert left_behind() == []


def test_the_root_filesystem_is_the_archives_content(built: Image) -> None:
    folder = rootfs.ensure_rootfs(built.digest)
    assert folder == rootfs_dir(built.digest)
    with tarfile.open(archive_of(built)) as tar:
        for member in tar:
            found = os.lstat(folder / member.name)
            if not member.issym():
                assert found.st_mode & 0o7777 == member.mode, member.name
            assert int(found.st_mtime) == member.mtime or member.isdir() or member.issym(), member.name
            owner = (member.uid, member.gid) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
            assert (found.st_uid, found.st_gid) == owner, member.name


def test_an_incomplete_root_filesystem_is_extracted_again(built: Image) -> None:
    folder = rootfs.ensure_rootfs(built.digest)
    (folder / "usr/bin/python3.11").unlink()
    rootfs.marker(built.digest).unlink()
    rootfs.ensure_rootfs(built.digest)
    assert (folder / "usr/bin/python3.11").is_file()


def test_a_damaged_archive_is_not_extracted(
    built: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive_of(built)
    monkeypatch.setenv("TARE_CACHE", str(tmp_path))
    archive_of(built).parent.mkdir()
    archive_of(built).write_bytes(source.read_bytes()[:-1])
    with pytest.raises(SoftwareError, match="absent or damaged"):
        rootfs.ensure_rootfs(built.digest)
    assert not rootfs_dir(built.digest).exists()


def test_the_manifest_has_the_interpreter_and_libc(built: Image) -> None:
    folder = rootfs.ensure_rootfs(built.digest)
    manifest = json.loads(libraries_path(built.digest).read_text())
    for name in ("/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libc.so.6"):
        assert manifest[name] == hashlib.sha256((folder / name[1:]).read_bytes()).hexdigest()
    assert manifest["/usr/bin/python3"] == manifest["/usr/bin/python3.11"]


def test_a_damaged_base_is_noticed(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record whose archive is gone is no record."""
    recipe = recipe_in(workspace / "project")
    base = ensure_base(recipe.base_lock, recipe.base, recipe.base_folder)
    shutil.copytree(cache_dir() / "builds", tmp_path / "builds")
    monkeypatch.setenv("TARE_CACHE", str(tmp_path))
    monkeypatch.setattr("tare.software.base.fetch_debs", _refuse)
    with pytest.raises(SoftwareError, match="asked to build"):
        ensure_base(recipe.base_lock, recipe.base, recipe.base_folder)
    assert base.digest.startswith("sha256:")


def _refuse(*_: object) -> None:
    raise SoftwareError("asked to build")
