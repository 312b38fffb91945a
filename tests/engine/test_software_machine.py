"""The machine's own tools: apt with a private state, venvs, real mounts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tare.config import Base
from tare.software import apt as apt_module
from tare.software import debs, wheels
from tare.software.errors import SoftwareError
from tare.software.files import sha256_file
from tare.software.locks import Deb, DebLock, StackLock
from tare.software.venv import ensure_host_form


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_deb(folder: Path, name: str, version: str) -> Deb:
    root = folder / f"{name}-{version}"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: T <t@example.org>\nDescription: test\n"
    )
    built = folder / "built.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", str(root), str(built)], check=True, capture_output=True
    )
    deb = Deb(name, version, "all", sha256_file(built), built.stat().st_size)
    built.rename(folder / deb.file_name)
    return deb


@pytest.fixture
def mirror(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Deb, list[str]]:
    """A repository with one package, and its line in a sources.list."""
    folder = tmp_path / "made"
    deb = make_deb(folder, "tare-test", "1:2.0-1")
    debs.cached(deb).parent.mkdir(parents=True)
    (folder / deb.file_name).rename(debs.cached(deb))
    repository = tmp_path / "repository"
    debs.make_repository([deb], repository)
    debs.cached(deb).unlink()
    sources = [f"deb [trusted=yes] copy:{repository} ./"]
    monkeypatch.setattr(debs, "sources_for", lambda _suite, _mirror: sources)
    assert cache.is_dir()
    return deb, sources


@pytest.mark.needs("mmdebstrap")
def test_apt_fetches_exactly_the_locked_version(mirror: tuple[Deb, list[str]]) -> None:
    deb, _ = mirror
    lock = DebLock("bookworm", "20200101T000000Z", (deb,))
    assert debs.fetch_debs(lock, Base()) == [debs.cached(deb)]
    assert sha256_file(debs.cached(deb)) == deb.sha256


@pytest.mark.needs("mmdebstrap")
@pytest.mark.parametrize("change", ["version", "content"])
def test_another_version_or_content_is_refused(mirror: tuple[Deb, list[str]], change: str) -> None:
    deb, _ = mirror
    other = (
        Deb(deb.name, "1:1.0-1", "all", deb.sha256, 1)
        if change == "version"
        else Deb(deb.name, deb.version, "all", "0" * 64, 1)
    )
    with pytest.raises(
        SoftwareError, match=rf"does not have the locked {other.name} {other.version}.*make relock"
    ):
        debs.fetch_debs(DebLock("bookworm", "20200101T000000Z", (other,)), Base())


@pytest.mark.needs("mmdebstrap")
def test_a_mirror_that_does_not_answer_is_told_in_apts_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debs, "sources_for", lambda _s, _m: [f"deb [trusted=yes] copy:{tmp_path}/absent ./"])
    lock = DebLock("bookworm", "20200101T000000Z", (Deb("x", "1", "all", "0" * 64, 1),))
    with pytest.raises(SoftwareError, match=r"locked x 1 \(apt: .*Failed to"):
        debs.fetch_debs(lock, Base())


@pytest.mark.needs("mmdebstrap")
def test_private_apt_touches_nothing_of_the_system(mirror: tuple[Deb, list[str]], tmp_path: Path) -> None:
    _, sources = mirror
    lists = sorted(path.name for path in Path("/var/lib/apt/lists").iterdir())
    apt = apt_module.PrivateApt(tmp_path / "apt", sources)
    assert apt.update(strict=True) == ""
    assert apt.resolve(["tare-test"]) == [("tare-test", "1:2.0-1")]
    assert apt.records([("tare-test", "1:2.0-1"), ("tare-test", "9")]).keys() == {("tare-test", "1:2.0-1")}
    with pytest.raises(SoftwareError, match="Unable to locate package absent"):
        apt.resolve(["absent"])
    assert sorted(path.name for path in Path("/var/lib/apt/lists").iterdir()) == lists


@pytest.mark.needs("mmdebstrap")
def test_installed_packages_are_not_resolved_again(mirror: tuple[Deb, list[str]], tmp_path: Path) -> None:
    _, sources = mirror
    first = apt_module.PrivateApt(tmp_path / "1", sources)
    first.update(strict=True)
    installed = apt_module.status_text(first.records([("tare-test", "1:2.0-1")]).values())
    second = apt_module.PrivateApt(tmp_path / "2", sources, installed)
    second.update(strict=True)
    assert second.resolve(["tare-test"]) == []


@pytest.mark.needs("mmdebstrap")
def test_mmdebstrap_tells_its_default_mirror() -> None:
    lines = apt_module._bootstrap_sources("bookworm")
    assert all(line.startswith("deb [") for line in lines)
    assert {line.split()[-2] for line in lines} == {"bookworm", "bookworm-updates", "bookworm-security"}


@pytest.fixture
def pip_lock(repository: Path, tmp_path: Path) -> StackLock:
    """A stack of one small wheel: pip, as the torch stack locks it."""
    requirements = StackLock(repository / "envs", "torch").wheels().requirements
    pip = next(requirement for requirement in requirements if requirement.name == "pip")
    (tmp_path / "s.lock.txt").write_text(f"# python 3.11 manylinux_2_28_x86_64\n{pip.lines()}")
    (tmp_path / "s.debs.lock").write_text("# suite bookworm\n# snapshot 20200101T000000Z\n")
    (tmp_path / "s.debs.in").write_text("suite: bookworm\n")
    return StackLock(tmp_path, "s")


@pytest.mark.needs("host_python")
def test_the_venv_holds_the_lock_and_unchecked_bytecode(pip_lock: StackLock) -> None:
    form = ensure_host_form(pip_lock)
    done = subprocess.run(
        [
            form.python,
            "-c",
            "import pip, sys; print(pip.__version__, sys.prefix != sys.base_prefix, pip.__file__)",
        ],
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    version, venv, file = done.stdout.split()
    assert (version, venv) == (form.packages["pip"], "True")
    compiled = [*(Path(file).parent / "__pycache__").glob("*.pyc")]
    assert compiled
    assert {path.read_bytes()[4] for path in compiled} == {1}  # PEP 552: hash-based, not checked


@pytest.mark.needs("host_python")
def test_a_half_made_venv_is_made_anew_and_a_whole_one_kept(pip_lock: StackLock) -> None:
    python = Path(ensure_host_form(pip_lock).python)
    mark = python.parent.parent / "mark"
    mark.touch()
    assert ensure_host_form(pip_lock).python == str(python)
    assert mark.exists()
    python.parent.parent.with_name(f"{python.parent.parent.name}.complete").unlink()
    ensure_host_form(pip_lock)
    assert not mark.exists()
    assert python.exists()


@pytest.mark.needs("host_python")
def test_wheels_without_pip_are_refused(pip_lock: StackLock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "lay_out", lambda _lock, folder: folder.mkdir())
    with pytest.raises(SoftwareError, match=r"envs/s\.in lacks pip"):
        ensure_host_form(pip_lock)


@pytest.mark.root
@pytest.mark.needs("chroot")
def test_a_tree_with_a_real_mount_of_dev_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "tree/dev").mkdir(parents=True)
    (tmp_path / "tree/file").touch()
    code = (
        "import sys; from pathlib import Path; from tare.software.safe_delete import remove_tree\n"
        "try: remove_tree(Path(sys.argv[1]))\nexcept Exception as fault: print(type(fault).__name__)"
    )
    script = 'mount --bind /dev "$1/dev" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path / "tree"), sys.executable, code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "MountedBelowError\n"
    assert (tmp_path / "tree/file").exists()
    assert Path("/dev/null").is_char_device()
