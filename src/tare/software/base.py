"""The base of every image: Debian's minimal system and python3, exactly as locked, as a normalised archive.

``bootstrap``: mmdebstrap from a local repository of exactly the locked packages. ``registry``: a digest-pinned
image, brought to the locked packages by ``containers/base/Dockerfile``.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tare.config import Base
from tare.software import normalise
from tare.software.apt import ARCHITECTURE, require_tools
from tare.software.builds import Built, recall, remember
from tare.software.contents import check_contents
from tare.software.context import build_context
from tare.software.debs import fetch_debs, make_repository
from tare.software.engine import LABEL_BUILD, Engine
from tare.software.errors import Skipped, SoftwareError
from tare.software.files import scratch, sha256_file, sha256_of_files
from tare.software.locks import DebLock, StackLock
from tare.software.recipe import recipe_files
from tare.software.safe_delete import remove_tree


def ensure_base(lock: StackLock, base: Base, recipe: Path) -> Built:
    """Return the base archive of a lock, building it when the cache lacks it.

    ``recipe``: ``containers/base``. Raises ``Skipped`` when this machine lacks a tool, ``SoftwareError`` otherwise.
    """
    key = base_key(lock, base, recipe)
    known = recall(key)
    if known:
        return known
    debs = lock.debs()
    check_clock(debs)
    fetch_debs(debs, base)
    with scratch("base") as folder:
        raw = folder / "raw.tar"
        if base.source == "registry":
            _from_registry(debs, base.image or "", recipe, folder, raw)
        else:
            _bootstrap(debs, raw)
        built = Built(*normalise.normalise_into_cache(raw, debs.epoch))
    check_contents(built.archive, debs, lock.wheels())
    return remember(key, built)


def base_key(lock: StackLock, base: Base, recipe: Path) -> str:
    """Return the key of a base: what its content depends on."""
    files = [lock.debs_path, Path(normalise.__file__)]
    origin = "bootstrap"
    if base.source == "registry":
        files += recipe_files(recipe)
        origin = (base.image or "")[-16:]
    return f"base-{origin}-{sha256_of_files(files)[:32]}"


def check_clock(lock: DebLock) -> None:
    """Raise ``SoftwareError`` when this machine's clock is before the lock: then times could not be clamped."""
    if time.time() < lock.epoch:
        raise SoftwareError(f"this machine's clock is before the lock's date {lock.snapshot}: set the clock")


def _bootstrap(lock: DebLock, target: Path) -> None:
    root = os.geteuid() == 0
    require_tools("mmdebstrap", "dpkg-deb", *([] if root else ["newuidmap"]))
    command = [
        "mmdebstrap",
        f"--mode={'root' if root else 'unshare'}",
        "--variant=apt",
        f"--architectures={ARCHITECTURE}",
        f"--include={','.join(deb.name for deb in lock.debs)}",
        "--format=tar",
        "--dpkgopt=force-unsafe-io",  # the tree is thrown away: nothing needs to survive a power cut
        lock.suite,
        "-",
    ]
    with _open_folder() as repository, target.open("wb") as tar:
        make_repository(lock.debs, repository)
        done = subprocess.run(
            [*command, f"deb [trusted=yes] copy:{repository} ./"],
            env=_environment(lock),
            umask=0o022,
            stdout=tar,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise _bootstrap_fault(done.stderr, root)


@contextmanager
def _open_folder() -> Iterator[Path]:
    """Yield a temporary folder that others can read: in a user namespace, mmdebstrap is not this user.

    The cache does not do: it may lie below a home folder that is closed to others.
    """
    folder = Path(tempfile.mkdtemp(prefix="tare-packages-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        remove_tree(folder)


def _environment(lock: DebLock) -> dict[str, str]:
    """Return the whole environment of the bootstrap: nothing of the caller's reaches the base."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "PATH": path,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(lock.epoch),
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
    }


def _bootstrap_fault(words: str, root: bool) -> SoftwareError:
    last = "\n".join(words.strip().splitlines()[-12:])
    if not root and ("subuid" in words or "newuidmap" in words or "unshare" in words):
        return Skipped(
            f"mmdebstrap cannot use user namespaces: {last}; give this user subordinate ids "
            "(sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER), and allow user namespaces "
            "(sudo sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0)"
        )
    return SoftwareError(f"mmdebstrap failed: {last}")


def _from_registry(lock: DebLock, image: str, recipe: Path, folder: Path, target: Path) -> None:
    """Write the root filesystem of a registry's image, brought to the locked packages.

    It is loaded anew under this build's labels first, so that nothing of the build can be left behind.
    """
    with Engine() as engine, engine.building() as labels:
        engine.pull(image)
        pulled = folder / "pulled.tar"
        engine.export(image, pulled, labels)
        tag = f"tare/build:{labels[LABEL_BUILD]}"
        engine.load(pulled, f"sha256:{sha256_file(pulled)}", f"{tag}-base", lock.epoch, labels)
        pulled.unlink()
        arguments = {"BASE": f"{tag}-base", "SOURCE_DATE_EPOCH": str(lock.epoch)}
        with build_context(recipe, lock.debs, None, lock.epoch) as context:
            engine.export(engine.build(context, arguments, tag), target, labels)
