"""Native programs: the C sources of ``src/tare/native`` → static programs, the same bytes wherever they are built.

The very same file runs on the host, in the chroot and in every container, so that its code is no difference between
runtimes. Programs are kept in the cache by the content of sources, flags and compiler: another checkout compiles
nothing.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from tare.paths import cache_dir
from tare.software.errors import Skipped, SoftwareError
from tare.software.files import exclusive, scratch, sha256_file, write_json
from tare.software.locks import StackLock
from tare.software.safe_delete import remove_tree
from tare.software.zig import Compiler, ensure_compiler

NATIVE = Path("src/tare/native")
COMMON = "common"
LOCK = "native"
KERNELS = "kernels.c"
#: raised when what is done with the sources changes in a way that the flags do not show
FORM = "1"

FLAGS = (
    *("-O3", "-std=c11", "-D_GNU_SOURCE", "-pthread", "-Icommon"),
    *("-Wall", "-Wextra", "-Werror", "-Wdate-time", "-fno-sanitize=undefined"),
    *("-ffunction-sections", "-fdata-sections"),
)
LINK_FLAGS = ("-static", "-s", "-pthread", "-Wl,--gc-sections", "-Wl,--build-id=none")
#: machine → what kernels.c is compiled for: name of the instruction set → flags. Without the last one the compiler
#: leaves half of each 512-bit register unused.
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "base": ("-march=x86_64",),
        "v3": ("-march=x86_64_v3",),
        "v4": ("-march=x86_64_v4", "-mprefer-vector-width=512"),
    },
    "aarch64": {"base": ()},
}


@dataclass(frozen=True)
class Program:
    """A compiled program in the cache, and what its status file says of it."""

    path: Path
    sha256: str
    compiler: str
    compiler_sha256: str
    target: str
    flags: list[str]


def programs(folder: Path = NATIVE) -> list[str]:
    """Return the names of all programs: the folders beside ``common``."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name != COMMON)


def sources(program: str, folder: Path = NATIVE) -> list[Path]:
    """Return the files a program is made of, the common ones first, sorted."""
    return [
        path
        for part in (COMMON, program)
        for path in sorted((folder / part).iterdir())
        if path.suffix in (".c", ".h")
    ]


def ensure_program(
    program: str, lock: StackLock, folder: Path = NATIVE, machine: str | None = None
) -> Program:
    """Return a program, compiled for a kind of machine (default: this one) when the cache lacks it.

    Raises ``SoftwareError`` with the compiler's message, ``Skipped`` for a machine that is not known.
    """
    if program not in programs(folder):
        raise SoftwareError(f"{program}: no native program; allowed: {', '.join(programs(folder))}")
    machine = machine or platform.machine()
    if machine not in LEVELS:
        raise Skipped(f"native programs are made for {' and '.join(LEVELS)}; this machine is {machine}")
    compiler = ensure_compiler(lock)
    files = sources(program, folder)
    home = cache_dir() / "native" / key(files, folder, compiler, machine)
    with exclusive(home.with_name(f"{home.name}.lock")):
        if (kept := _kept(home, program)) is None:
            _make(program, files, folder, compiler, machine, home)
            kept = _kept(home, program)
    if kept is None:
        raise SoftwareError(f"{home}: the compiled program cannot be read back; is the disk full?")
    return kept


def key(files: list[Path], folder: Path, compiler: Compiler, machine: str) -> str:
    """Return what identifies a program: sources by place and content, compiler, flags and target."""
    recipe = [FORM, compiler.sha256, machine, *FLAGS, *LINK_FLAGS, json.dumps(LEVELS[machine])]
    digest = hashlib.sha256("\0".join(recipe).encode())
    for path in files:
        digest.update(f"\n{path.relative_to(folder).as_posix()}\0{sha256_file(path)}".encode())
    return digest.hexdigest()[:32]


def _kept(home: Path, program: str) -> Program | None:
    """Return the program in a folder of the cache, None when it is absent or damaged."""
    try:
        facts = json.loads((home / "build.json").read_text(encoding="utf-8"))
        found = Program(path=home / program, **facts)
        return found if sha256_file(found.path) == found.sha256 else None
    except (OSError, ValueError, TypeError):
        return None


def _make(
    program: str, files: list[Path], folder: Path, compiler: Compiler, machine: str, home: Path
) -> None:
    """Compile copies of the files, by relative names, so that nothing of the place gets into the program."""
    target = f"{machine}-linux-musl"
    with scratch("native") as work:
        for path in files:
            copy = work / path.relative_to(folder)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
        made = work / "made"
        made.mkdir()
        objects = _compile([path.relative_to(folder) for path in files], compiler, machine, work)
        link = ["cc", "-target", target, *LINK_FLAGS, *objects, "-o", f"made/{program}"]
        compiler.run(link, work)
        (made / program).chmod(0o755)
        facts = asdict(
            Program(
                path=made / program,
                sha256=sha256_file(made / program),
                compiler=f"zig {compiler.version}",
                compiler_sha256=compiler.sha256,
                target=target,
                flags=[*FLAGS, *LINK_FLAGS],
            )
        )
        del facts["path"]
        write_json(made / "build.json", facts)
        remove_tree(home)
        made.rename(home)


def _compile(files: list[Path], compiler: Compiler, machine: str, work: Path) -> list[str]:
    """Compile each source, kernels.c once for each instruction set; return the objects, relative to ``work``."""
    objects = []
    for file in (path for path in files if path.suffix == ".c"):
        variants = LEVELS[machine] if file.name == KERNELS else {"": LEVELS[machine]["base"]}
        for isa, flags in variants.items():
            name = f"{file.parent.name}-{file.stem}{'-' if isa else ''}{isa}.o"
            chosen = [*FLAGS, *flags, *([f"-DISA={isa}"] if isa else [])]
            words = ["cc", "-target", f"{machine}-linux-musl", *chosen, "-c", file.as_posix(), "-o", name]
            compiler.run(words, work)
            objects.append(name)
    return objects
