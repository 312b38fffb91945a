"""The assembled fingerprint: complete, comparable between runs, and without the user's folders."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tare import fingerprint, parity, runtimes
from tare.parity_fields import flatten, rule_of
from tare.runtimes.base import LaunchSpec, Outcome, RunRequest, Stack
from tare.worker.process_facts import process

OWNER = "8d43363741c8d252:77:123"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    (folder / "archives").mkdir(parents=True)
    (folder / "archives" / "def.libraries.json").write_text(json.dumps({"/usr/lib/libc.so.6": "c" * 64}))
    monkeypatch.setenv("TARE_CACHE", str(folder))
    return folder


def request(cache: Path, run_id: str = "r1") -> RunRequest:
    stack = Stack(
        "hpc",
        host_python=str(cache / "venvs/x/bin/python"),
        image="sha256:i",
        digest="sha256:def",
        rootfs=cache / "rootfs/def",
        lock_sha256="lock",
    )
    return RunRequest(
        run_id=run_id,
        study="quick",
        stack=stack,
        output=Path("/home/jane/study/results/scratch") / run_id,
        data=Path("/home/jane/study/results/data/mnist"),
        worker_wheel="w.whl",
        environment={"TARE_RUN_ID": run_id, "TARE_OWNER": OWNER, "OMP_NUM_THREADS": "2"},
        uid=1000,
        gid=1000,
        owner=OWNER,
    )


def assemble(
    name: str, wanted: RunRequest, libraries: list[str] | None = None, **changes: Any
) -> dict[str, Any]:
    spec: LaunchSpec = runtimes.get(name).specify(wanted)
    events = {
        "process": {
            "environment": dict(spec.environment),
            "mounts": {"output": {"source": "/dev/sda"}},
        },
        "software": {"numpy": "2.4.6"},
        "libraries": ["/usr/lib/libc.so.6"] if libraries is None else libraries,
    }
    arguments = {
        "node": {"node": "n", "machine_id": "m"},
        "spec": spec,
        "outcome": Outcome(0, 1, 2, facts={"storage_driver": "overlay2"}),
        "events": events,
        "check": {"parameters": 5},
        "stack": wanted.stack,
        "data_sha256": "d",
    }
    return fingerprint.assemble(**{**arguments, **changes})


@pytest.mark.parametrize("name", runtimes.RUNTIMES)
def test_no_folder_of_the_user_and_nothing_of_one_run(name: str, cache: Path) -> None:
    text = json.dumps(assemble(name, request(cache)))
    for private in ("jane", str(cache), "r1", OWNER, "8d43363741c8d252"):
        assert private not in text


@pytest.mark.parametrize("name", runtimes.RUNTIMES)
def test_two_runs_of_a_runtime_have_the_same_fingerprint(name: str, cache: Path) -> None:
    assert assemble(name, request(cache, "r1")) == assemble(name, request(cache, "other-run"))


def test_environments_are_equal_in_all_runtimes(cache: Path) -> None:
    found = [assemble(name, request(cache))["process"]["environment"] for name in runtimes.RUNTIMES]
    assert found == [
        {
            "HOME": "<output>",
            "OMP_NUM_THREADS": "2",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": "<output>/w.whl",
            "TARE_OWNER": "<owner>",
            "TARE_RUN_ID": "<run>",
            "TMPDIR": "<output>",
        }
    ] * len(found)


def test_only_whole_parts_of_a_path_are_named(cache: Path) -> None:
    texts = ["/x/tare", "/tare-cache/a", "/tare/a", "/tare", "a:/data/b:/database", "--in=/data"]
    events = {"process": {}, "software": {"texts": texts}, "libraries": []}
    made = assemble("docker", request(cache), events=events)["software"]["texts"]
    assert made == [
        "/x/tare",
        "/tare-cache/a",
        "<output>/a",
        "<output>",
        "a:<data>/b:/database",
        "--in=<data>",
    ]


def test_libraries_in_the_image_come_from_its_manifest(cache: Path) -> None:
    mapped = [
        "/usr/lib/libc.so.6",
        "/usr/lib/libx.so",
        "/tare/tmp/shm.so",
        "/data/file.so",
        "/usr/lib/locale/C",
    ]
    assert assemble("docker", request(cache), mapped)["libraries"] == {
        "/usr/lib/libc.so.6": "c" * 64,
        "/usr/lib/libx.so": None,
    }


def test_libraries_of_the_host_are_hashed_and_named_by_the_cache(cache: Path) -> None:
    library = cache / "venvs/x/lib/libt.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"t")
    made = assemble("host", request(cache), [str(library)])
    assert made["libraries"] == {"<cache>/venvs/x/lib/libt.so": hashlib.sha256(b"t").hexdigest()}
    assert made["launch"]["argv"][0] == "<cache>/venvs/x/bin/python"
    assert made["launch"]["image_digest"] is None


def test_launch_says_what_was_started_and_what_the_engine_did(cache: Path) -> None:
    launch = assemble("docker", request(cache))["launch"]
    assert launch["argv"] == ["/usr/bin/python3", "-m", "tare.worker", "<output>/request.json"]
    assert launch["options"]["mounts"][0] == {"source": "<output>", "target": "<output>", "read_only": False}
    assert launch["options"]["labels"] == {"tare": "quick", "tare.run": "<run>", "tare.owner": "<owner>"}
    assert "command" not in launch["options"]
    assert launch["engine"] == {"storage_driver": "overlay2"}
    assert (launch["stack"], launch["image_digest"], launch["lock_sha256"], launch["data_sha256"]) == (
        "hpc",
        "sha256:def",
        "lock",
        "d",
    )


def test_worker_that_said_nothing_leaves_nulls_that_fail_parity(cache: Path) -> None:
    silent = assemble("docker", request(cache), events={}, check={})
    assert (silent["process"], silent["software"], silent["libraries"], silent["check"]) == (
        None,
        None,
        None,
        {},
    )
    result = parity.compare(assemble("chroot", request(cache)), silent, "chroot", "docker")
    assert result.status == "different"


@pytest.mark.parametrize("reference", ["host", "chroot", "docker-hardened"])
def test_assembled_fingerprints_of_the_same_work_are_the_same(cache: Path, reference: str) -> None:
    wanted = request(cache)
    one, other = assemble(reference, wanted, []), assemble("docker", wanted, [])
    assert parity.compare(one, other, reference, "docker").status == "same"


def test_every_field_of_a_real_worker_has_a_parity_rule(cache: Path, tmp_path: Path) -> None:
    facts = process(str(tmp_path), None)
    made = assemble("docker", request(cache), events={"process": facts, "software": {}, "libraries": []})
    kinds = {
        name: rule_of(name).kind for name in flatten({k: v for k, v in made.items() if k != "libraries"})
    }
    assert {"process.affinity", "process.glibc", "process.status.Seccomp"} <= set(kinds)
    assert parity.compare(made, made, "docker", "docker").status == "same"
