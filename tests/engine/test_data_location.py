"""Where test files lie, with the real engine: in the mounted folder, in the container's layer, in a volume of ours.

The worker is real; the image has none of its programs and sees those of the machine, read-only.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_python import imported_id

import tare
from adapter_requests import adapter_request, request_body
from tare import backing, runtimes
from tare.identity import owner_id
from tare.page_cache import LOCAL_FILE_SYSTEMS, file_system
from tare.runtimes import engine
from tare.runtimes.base import FILES, LABEL_RUN, LaunchError, LaunchSpec, RunRequest, Stack
from tare.sweep import sweep
from tare.workloads import copy_up
from tare.workloads.registry import WORKLOADS

SRC = Path(tare.__file__).parents[1]
OWN = ("/usr/bin", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
LOCATIONS = ("bind", "layer", "volume")
UID = 54_321
pytestmark = [pytest.mark.engine, pytest.mark.needs("hpc_host")]


@pytest.fixture(scope="module")
def image(tiny_root: Path) -> Iterator[str]:
    """An image with a folder for everybody's files and the file that copy-up writes to."""

    def add(archive: tarfile.TarFile, name: str, mode: int, data: bytes | None) -> None:
        entry = tarfile.TarInfo(name)
        entry.mode, entry.type = mode, tarfile.DIRTYPE if data is None else tarfile.REGTYPE
        entry.size = len(data or b"")
        archive.addfile(entry, io.BytesIO(data or b""))

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(tiny_root, arcname=".")
        add(archive, "var/tmp", 0o1777, None)
        add(archive, "usr/share/tare", 0o755, None)
        add(archive, copy_up.IMAGE_FILE.lstrip("/"), 0o666, copy_up.content())
    made = imported_id(engine.api().import_image_from_data(buffer.getvalue()))
    yield made
    engine.api().remove_image(made, force=True)


Prepare = Callable[..., LaunchSpec]


@pytest.fixture
def prepare(image: str, disk: Path) -> Prepare:
    """``prepare(workload, location, runtime, **factors)``: the run's folder filled, and its launch."""

    def make(workload: str, location: str, runtime: str = "docker", **factors: Any) -> LaunchSpec:
        run_id = f"location-{os.getpid()}-{time.monotonic_ns()}"
        output = disk / run_id
        shutil.copytree(SRC / "tare/worker", output / "w.whl/tare/worker")
        shutil.copytree(SRC / "tare/workloads", output / "w.whl/tare/workloads")
        shutil.copy(SRC / "tare/__init__.py", output / "w.whl/tare")
        (output / FILES).mkdir()
        uid = os.getuid() or UID
        for path in (output, output / FILES):
            os.chown(path, uid, uid if os.getuid() == 0 else -1)
        owner = owner_id()
        request = RunRequest(
            run_id=run_id,
            study="test",
            stack=Stack("tiny", image=image),
            output=output,
            data=None,
            worker_wheel="w.whl",
            environment={"TARE_RUN_ID": run_id, "TARE_OWNER": owner, "LC_ALL": "C.UTF-8"},
            uid=uid,
            gid=uid if os.getuid() == 0 else os.getgid(),
            owner=owner,
            location=location,
        )
        spec = runtimes.get(runtime).specify(request)
        given = {"location": location, **factors}
        levels = {name: level for name, level in given.items() if name in WORKLOADS[workload].factors}
        asked = adapter_request(workload, spec.output, levels, run_id=run_id, files=spec.files)
        (output / "request.json").write_text(json.dumps(request_body(asked)))
        own = [{"source": path, "target": path, "read_only": True} for path in OWN if Path(path).exists()]
        return replace(spec, options={**spec.options, "mounts": (*spec.options["mounts"], *own)})

    return make


def run(spec: LaunchSpec) -> dict[str, dict[str, Any]]:
    """Run it to its end; return its events but the samples by their names."""
    running = runtimes.get(spec.runtime).start(spec)
    try:
        outcome = running.wait(120)
    finally:
        running.close()
    assert outcome is not None
    output = Path(spec.options["mounts"][0]["source"])
    assert (output / "events.jsonl").exists(), (outcome, (output / "stderr.txt").read_text())
    told = [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]
    return {event["event"]: event for event in told if event["event"] != "sample"}


def volumes(run_id: str) -> list[str]:
    found = engine.api().volumes(filters={"label": f"{LABEL_RUN}={run_id}"})["Volumes"] or []
    return [volume["Name"] for volume in found]


def device_of(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


@pytest.mark.parametrize(
    ("workload", "factors", "location"),
    [
        *(("io-direct-random", {}, location) for location in LOCATIONS),
        *(("io-write", {"size": 1}, location) for location in LOCATIONS),
        ("io-latency", {}, "layer"),
        ("io-cached-random", {}, "layer"),
        ("io-cached-sequential", {}, "volume"),
        ("fio-randread", {"seconds": 1}, "layer"),
        ("fio-seqread", {"seconds": 1}, "volume"),
        ("fio-randwrite", {"seconds": 1}, "layer"),
    ],
)
def test_every_location_gives_proved_numbers_to_an_ordinary_user(
    prepare: Prepare, workload: str, factors: dict[str, Any], location: str
) -> None:
    spec = prepare(workload, location, **factors)
    events = run(spec)
    assert events["check"]["reasons"] == []
    process = events["fingerprint"]["process"]
    assert process["uid"] == (os.getuid() or UID)
    assert process["mounts"]["files"]["type"] == "overlay" or location != "layer"
    under = backing.backing(process)
    assert under is not None
    assert under["type"] in LOCAL_FILE_SYSTEMS
    assert backing.reasons(WORKLOADS[workload], under) == []
    # Nothing is left: no file, no volume.
    output = Path(spec.options["mounts"][0]["source"])
    assert list((output / FILES).iterdir()) == []
    assert volumes(output.name) == []


@pytest.mark.needs("root")
@pytest.mark.parametrize("location", LOCATIONS)
def test_what_lies_under_is_the_device_of_the_real_folder(prepare: Prepare, location: str) -> None:
    """As root both folders can be asked: the engine's own, where layers and volumes lie, and the output."""
    spec = prepare("io-write", location, size=1)
    process = run(spec)["fingerprint"]["process"]
    folder = (
        Path(spec.options["mounts"][0]["source"])
        if location == "bind"
        else Path(engine.api().info()["DockerRootDir"])
    )
    under = backing.backing(process)
    assert under is not None
    assert (under["device"], under["type"]) == (device_of(folder), file_system(folder))


def test_copy_up_is_paid_once_and_by_the_layer_alone(prepare: Prepare, disk: Path) -> None:
    """Case 32. The image's own file in the layer; a plain copy of the same bytes where the root is read-only."""
    found = {}
    for runtime in ("docker", "docker-hardened"):
        spec = prepare("copy-up", "layer", runtime)
        events = run(spec)
        assert events["check"]["reasons"] == []
        output = Path(spec.options["mounts"][0]["source"])
        told = [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]
        first = next(event["value"] for event in told if event.get("metric") == "first_write_seconds")
        rest = sorted(event["value"] for event in told if event.get("metric") == "next_write_seconds")
        found[runtime] = (events["check"]["facts"], first, rest[len(rest) // 2])
        shutil.rmtree(output)
    layer, first, following = found["docker"]
    assert (layer["place"], layer["file_system"]) == ("file of the image", "overlay")
    assert layer["first_write_device_bytes"] >= copy_up.FILE_BYTES
    assert first > 20 * following
    plain, _, _ = found["docker-hardened"]
    assert plain["place"] == "plain copy"
    assert plain["first_write_device_bytes"] < copy_up.FILE_BYTES / 4
    assert plain["work"] == layer["work"]
    assert list(disk.iterdir()) == []


def test_a_read_only_layer_is_refused_with_the_way_out(prepare: Prepare) -> None:
    error = run(prepare("io-write", "layer", "docker-hardened"))["error"]
    assert error["kind"] == "WrittenFileError"
    assert (
        "/var/tmp cannot be written by this run (read-only or not its own); choose another location"
        in (error["message"])
    )


def test_memory_is_refused_for_a_disk_claim(prepare: Prepare) -> None:
    spec = prepare("io-direct-random", "layer")
    events = run(replace(spec, options={**spec.options, "tmpfs": {"/var/tmp": "rw,mode=1777"}}))
    assert "/var/tmp lies on tmpfs, which is memory, no disk" in events["error"]["message"]
    assert "check" not in events


def test_the_volume_is_ours_while_the_run_lasts_and_gone_after(prepare: Prepare) -> None:
    spec = prepare("io-latency", "volume", requests=10_000)
    run_id = spec.options["labels"][LABEL_RUN]
    runtime = runtimes.get("docker")
    running = runtime.start(spec)
    try:
        (name,) = volumes(run_id)
        assert name == spec.options["volume"]
        told = engine.api().inspect_volume(name)["Labels"]
        assert told == dict(spec.options["labels"])
        assert [text for text in sweep() if run_id in text] == []  # of a living owner
        assert volumes(run_id) == [name]
    finally:
        running.close()
    assert volumes(run_id) == []


def test_a_run_that_cannot_be_started_leaves_no_volume(prepare: Prepare) -> None:
    spec = prepare("io-latency", "volume")
    with pytest.raises(LaunchError, match="cannot start the run"):
        runtimes.get("docker").start(
            replace(spec, options={**spec.options, "init": None, "entrypoint": ("/absent",)})
        )
    assert volumes(spec.options["labels"][LABEL_RUN]) == []


MEASURE = """
import json, sys
from tare import runtimes
from tare.identity import owner_id
from tare.runtimes.base import LABEL_OWNER, LaunchSpec
spec = LaunchSpec(**json.loads(sys.argv[1]))
spec.options["labels"][LABEL_OWNER] = owner_id()
running = runtimes.get("docker").start(spec)
print("up", flush=True)
running.wait()
"""


def test_the_volume_of_a_killed_measurement_goes_with_the_next_sweep(prepare: Prepare) -> None:
    spec = prepare("io-latency", "volume", requests=10_000)
    run_id = spec.options["labels"][LABEL_RUN]
    text = json.dumps({**spec.__dict__, "options": dict(spec.options)})
    command = [sys.executable, "-c", MEASURE, text]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == "up\n"
        finally:
            parent.kill()
        parent.wait(30)
    assert volumes(run_id) == [spec.options["volume"]]
    removed = [text for text in sweep() if run_id in text]
    assert [text.split()[0] for text in removed] == ["container", "volume"]
    assert volumes(run_id) == []
    assert [text for text in sweep() if run_id in text] == []
