"""A real Snakemake's lock: refused while it lives, cleared once it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tare.setup import workflow
from tare.setup.environment import SetupError

SNAKEFILE = """
rule all:
    input: "done.txt"

rule work:
    output: "done.txt"
    shell: "touch job.$$; test -e go || tail -f /dev/null; touch {output}"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    yield tmp_path
    for job in tmp_path.glob("job.*"):  # kill -9 of Snakemake leaves its job behind
        subprocess.run(["pkill", "-9", "-P", job.suffix[1:]], check=False)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited a minute in vain"
        time.sleep(0.05)


def test_lock_of_a_killed_study(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = workflow.environment(checkout, os.environ)
    argv = [workflow.snakemake(checkout), "--cores", "1", "--quiet", "all"]
    study = subprocess.Popen(argv, cwd=checkout, env=environ, stderr=subprocess.DEVNULL)
    until(lambda: list(checkout.glob("job.*")))
    assert workflow.locked(checkout)
    with pytest.raises(
        SetupError, match=rf"a study is running in this folder already \(process {study.pid}\)"
    ):
        workflow.clear_dead_lock(checkout, environ)

    study.send_signal(signal.SIGKILL)
    study.wait()
    assert workflow.locked(checkout)
    workflow.clear_dead_lock(checkout, environ)
    assert not workflow.locked(checkout)
    assert "finished blocks are kept" in capsys.readouterr().out

    (checkout / "go").touch()
    argv += ["--rerun-incomplete"]
    subprocess.run(argv, cwd=checkout, env=environ, check=True, stderr=subprocess.DEVNULL)
    assert (checkout / "done.txt").exists()
