"""apt with a state of its own: the machine's configuration (proxies, certificates, sources) and none of its state.

Works for an ordinary user, changes nothing of the system, needs no installed package list. Which mirror serves a
suite is found in apt's own configuration, else in what mmdebstrap writes by itself, or is given.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from tare.software.errors import Skipped, SoftwareError
from tare.software.locks import SNAPSHOT_FORMAT, Deb

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURE = "amd64"
#: hooks of the machine's configuration act on the machine's state (clean-ups, desktop catalogues): not here
_CONFIG = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear APT::Architectures;
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "{folder}/none";
Dir::Etc::preferences "{folder}/none";
Dir::Etc::preferencesparts "{folder}/none";
"""


class PrivateApt:
    """apt on some sources, with all its state below ``folder``. ``update`` comes before everything else."""

    def __init__(self, folder: Path, sources: Sequence[str], installed: str = "") -> None:
        """``sources``: lines of a sources.list; ``installed``: text of a dpkg status file."""
        for name in ("state/lists/partial", "cache/archives/partial", "none"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text(installed, encoding="utf-8")
        (folder / "sources.list").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        self._config = folder / "apt.conf"
        self._config.write_text(_CONFIG.format(folder=folder, architecture=ARCHITECTURE), encoding="utf-8")
        self._lists = folder / "state/lists"

    def update(self, strict: bool) -> str:
        """Fetch and check the package lists; return what apt complained about ("" when all went well).

        A list that is absent or wrongly signed is not used. ``strict``: it raises ``SoftwareError`` with apt's words.
        """
        done = self._call("apt-get", "-qq", "update", "--error-on=any")
        words = "" if done.returncode == 0 else _complaints(done.stderr)
        if strict and words:
            raise SoftwareError(f"apt-get update failed: {words}")
        return words

    def dates(self) -> list[datetime]:
        """Return the dates of the Release files in use."""
        texts = [path.read_text("utf-8", "replace") for path in sorted(self._lists.glob("*Release"))]
        found = [re.search(r"^Date: (.+)$", text, re.MULTILINE) for text in texts]
        return [parsedate_to_datetime(match[1]).astimezone(UTC) for match in found if match]

    def required(self) -> list[str]:
        """Return the packages that every Debian has: Essential, or of priority required."""
        records = _stanzas(self._run("apt-cache", "dumpavail"))
        chosen = [
            r["Package"] for r in records if r.get("Essential") == "yes" or r.get("Priority") == "required"
        ]
        return sorted(set(chosen))

    def resolve(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return (name, version) of what installing ``names`` would add to what is installed, recommends left out."""
        if not names:
            return []
        output = self._run("apt-get", "-s", "-y", "install", *names)
        return sorted(re.findall(r"^Inst (\S+?)(?::\S+)? (?:\[\S+\] )?\((\S+) ", output, re.MULTILINE))

    def records(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Mapping[str, str]]:
        """Return the control record of each (name, version) that the sources have; others are absent."""
        names = sorted({name for name, _ in wanted})
        if not names:
            return {}
        shown = _stanzas(self._call("apt-cache", "show", *names).stdout)
        keys = set(wanted)
        return {(r["Package"], r["Version"]): r for r in shown if (r["Package"], r["Version"]) in keys}

    def download(self, debs: Sequence[Deb], folder: Path) -> None:
        """Put exactly ``debs`` into ``folder``; apt checks them against its signed lists."""
        if debs:
            self._run("apt-get", "-qq", "download", *(f"{d.name}={d.version}" for d in debs), cwd=folder)

    def _run(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        done = self._call(tool, *arguments, cwd=cwd)
        if done.returncode != 0:
            raise SoftwareError(f"{tool} {' '.join(arguments)[:80]} failed: {_complaints(done.stderr)}")
        return done.stdout

    def _call(self, tool: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tool, "-c", str(self._config), *arguments],
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )


def _complaints(stderr: str) -> str:
    """Return apt's errors and warnings on one line, each once."""
    lines = [line.strip() for line in stderr.splitlines() if line.startswith(("E: ", "W: "))]
    return " ".join(dict.fromkeys(lines)) or " ".join(stderr.split())


def _stanzas(text: str) -> list[dict[str, str]]:
    """Return the stanzas of a text in Debian's control format; continuation lines are kept as they are."""
    records = []
    for block in re.split(r"\n\n+", text.strip()):
        fields = re.findall(r"^([A-Za-z0-9-]+):[ \t]*(.*(?:\n[ \t].*)*)", block, re.MULTILINE)
        if fields:
            records.append(dict(fields))
    return records


def status_text(records: Iterable[Mapping[str, str]]) -> str:
    """Return a dpkg status file in which the packages of ``records`` are installed."""
    return "\n".join(
        "".join(f"{key}: {value}\n" for key, value in {**record, "Status": "install ok installed"}.items())
        for record in records
    )


def parts_of(suite: str) -> tuple[str, str, str]:
    """Return the three parts of a Debian suite: itself, its updates, its security updates."""
    return suite, f"{suite}-updates", f"{suite}-security"


def sources_for(suite: str, mirror: str) -> list[str]:
    """Return the sources.list lines that serve ``suite``: of apt itself (``auto``), of mmdebstrap, or of ``mirror``."""
    require_tools()
    if mirror != "auto":
        return _mirror_sources(suite, mirror)
    own = own_sources(suite, _own_targets())
    return own or _bootstrap_sources(suite)


def _mirror_sources(suite: str, mirror: str) -> list[str]:
    """Return the lines for a mirror of Debian; its security part lies beside it, as on Debian's own servers."""
    root = mirror.rstrip("/")
    options = f"[signed-by={KEYRING}]"
    main, updates, security = parts_of(suite)
    beside = re.sub(r"/debian$", "/debian-security", root)
    lines = [_line(root, main, options), _line(root, updates, options)]
    return lines if beside == root else [*lines, _line(beside, security, options)]


def snapshot_sources(suite: str, snapshot: str, moment: str) -> list[str]:
    """Return the lines for a snapshot archive (``<snapshot>/debian/<time>/…``) one day after ``moment``.

    A snapshot is imported after the Release file it holds was dated: asking for that very time would give the
    state before it.
    """
    later = datetime.strptime(moment, SNAPSHOT_FORMAT) + timedelta(days=1)
    stamp = later.strftime(SNAPSHOT_FORMAT)
    options = f"[signed-by={KEYRING} check-valid-until=no]"
    main, updates, security = parts_of(suite)
    root = snapshot.rstrip("/")
    return [
        _line(f"{root}/debian/{stamp}/", main, options),
        _line(f"{root}/debian/{stamp}/", updates, options),
        _line(f"{root}/debian-security/{stamp}/", security, options),
    ]


def own_sources(suite: str, targets: str) -> list[str]:
    """Return those of apt's own sources (lines of ``_own_targets``) that are Debian's main part of ``suite``.

    Empty when ``suite`` itself is not among them: then apt is configured for another distribution.
    """
    lines = []
    found = set()
    for target in targets.splitlines():
        uri, release, codename, component, origin, signed_by = (target.split("|") + [""] * 6)[:6]
        part = next((p for p in parts_of(suite) if p in (release, codename)), None)
        foreign = origin not in (
            "Debian",
            "",
            "$(ORIGIN)",
        )  # unknown before the machine's first apt-get update
        if part is None or component != "main" or foreign:
            continue
        key = signed_by if signed_by.startswith("/") else KEYRING
        found.add(part)
        lines.append(_line(uri, release, f"[signed-by={key}]"))
    return list(dict.fromkeys(lines)) if suite in found else []


def _own_targets() -> str:
    form = "$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(COMPONENT)|$(ORIGIN)|$(SIGNED_BY)"
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", form, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout if done.returncode == 0 else ""


def _bootstrap_sources(suite: str) -> list[str]:
    """Return the sources.list that mmdebstrap writes by itself; it is stopped right after that."""
    require_tools("mmdebstrap")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "sources.list"
        hook = f'cat "$1"/etc/apt/sources.list > "{copy}"; exit 1'
        mode = "root" if os.geteuid() == 0 else "unshare"
        done = subprocess.run(
            [
                "mmdebstrap",
                f"--mode={mode}",
                f"--architectures={ARCHITECTURE}",
                f"--setup-hook={hook}",
                suite,
                "-",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = copy.read_text(encoding="utf-8").splitlines() if copy.exists() else []
    lines = [
        re.sub(r"^deb (?!\[)", f"deb [signed-by={KEYRING}] ", line)
        for line in lines
        if line.startswith("deb ")
    ]
    if not lines:
        raise SoftwareError(
            f"no Debian mirror for {suite}: neither apt's configuration nor mmdebstrap names one "
            f"({done.stderr.strip().splitlines()[-1:]}); set software.base.mirror to the URL of a Debian mirror"
        )
    return lines


def _line(uri: str, release: str, options: str) -> str:
    return f"deb {options} {uri} {release} main"


def require_tools(*tools: str) -> None:
    """Raise ``Skipped`` naming the packages to install when apt, the Debian keys or one of ``tools`` is absent."""
    packages = {"mmdebstrap": "mmdebstrap", "newuidmap": "uidmap", "dpkg-deb": "dpkg"}
    if os.uname().machine != "x86_64":
        raise Skipped(
            f"the locks are made for x86_64, this machine is {os.uname().machine}; use an x86_64 machine"
        )
    if not shutil.which("apt-get"):
        raise Skipped(
            "this machine has no apt, which fetches the Debian packages of the images; use Debian or Ubuntu"
        )
    lacking = [packages[tool] for tool in tools if not shutil.which(tool)]
    if not KEYRING.exists():
        lacking.append("debian-archive-keyring")
    if lacking:
        raise Skipped(f"not installed: {', '.join(lacking)}; install: apt-get install {' '.join(lacking)}")
