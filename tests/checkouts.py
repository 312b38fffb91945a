"""Snakemake on a copy of the repository: what it would run, and what it says. No Docker, nothing is measured."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = (
    "Snakefile",
    "rules",
    "scripts",
    "src",
    "config",
    "profiles",
    "envs",
    "containers",
    "pyproject.toml",
    "README.md",
)


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository in which Snakemake can be asked and files can be changed."""

    path: Path
    own_cache: bool = True

    def snakemake(
        self, *arguments: str, cores: str = "all", timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end."""
        command, environment = self._command(cores, arguments), self._environment()
        return subprocess.run(
            command,
            cwd=self.path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start_snakemake(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Snakemake in a process group of its own; what it says goes to snakemake.log."""
        with (self.path / "snakemake.log").open("w") as log:
            return subprocess.Popen(
                self._command("all", arguments),
                cwd=self.path,
                env=self._environment(),
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    @staticmethod
    def _command(cores: str, arguments: Sequence[str]) -> list[str]:
        return [str(Path(sys.executable).parent / "snakemake"), "--cores", cores, *arguments]

    def _environment(self) -> dict[str, str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SNAKEMAKE") and (name == "TARE_CACHE" or not name.startswith("TARE_"))
        }
        if self.own_cache:
            environment["TARE_CACHE"] = str(self.path / "cache")
        return environment

    def would_run(self, *arguments: str) -> dict[str, int]:
        """Return rule → number of jobs of a dry run."""
        asked = self.snakemake("--dry-run", *arguments)
        assert asked.returncode == 0, asked.stdout + asked.stderr
        if "Nothing to be done" in asked.stdout + asked.stderr:
            return {}
        table = (asked.stdout + asked.stderr).split("Job stats:")[1].split("total")[0]
        return {
            name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)\s*$", table, flags=re.MULTILINE)
        }

    def append(self, name: str, text: str) -> None:
        with (self.path / name).open("a") as file:
            file.write(text)

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.path / name).read_text()
        assert old in text, f"{name} no longer contains {old!r}"
        (self.path / name).write_text(text.replace(old, new))


def copy_checkout(target: Path, own_cache: bool = True) -> Checkout:
    """Copy what the workflow needs, without results."""
    target.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, target / name)
    return Checkout(target, own_cache)
