"""The parity gate: what is the treatment, what is another thing measured. Cases 1–5, 8, 9 of the field."""

from __future__ import annotations

import ast
import copy
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from tare import parity, parity_fields
from tare.parity import compare, compare_losses

LOSSES = [2.302585, 1.75, 0.875]
BLAS = "/usr/lib/python3/dist-packages/numpy.libs/libopenblas64_p-r0-15028c96.3.21.so"


def fingerprint(**changes: Any) -> dict[str, Any]:
    """A run in the image, as ``tare.fingerprint.assemble`` stores it; ``changes``: dotted names with __ for a dot."""
    made: dict[str, Any] = {
        "node": {"machine_id": "m", "node": "n", "thp_enabled": "madvise", "governor": None},
        "launch": {
            "runtime": "docker",
            "argv": ["/usr/bin/python3"],
            "options": {"user": "1000:1000"},
            "engine": {"host_config": {"Init": True}},
            "stack": "torch",
            "image_digest": "sha256:1",
            "lock_sha256": "l",
            "data_sha256": "d",
        },
        "process": {
            "interpreter": {"version": "3.11.2 (main, Debian)", "pgo": True, "lto": True, "CFLAGS": "-O2"},
            "glibc": "glibc 2.36",
            "kernel": "6.1",
            "affinity": [0, 1],
            "quota_cpus": None,
            "effective_cpus": 2,
            "cgroup": {"cpu": "/docker/a"},
            "ulimits": {"memlock": [65536, 65536]},
            "shm": {"bytes": 67108864, "free_bytes": 67108864, "type": "tmpfs"},
            "status": {
                "Seccomp": "2",
                "Speculation_Store_Bypass": "vulnerable",
                "SpeculationIndirectBranch": "always enabled",
                "CapEff": "00",
                "NoNewPrivs": "0",
            },
            "mounts": {
                "/": {"type": "overlay", "device": "0:50", "options": "rw", "source": "overlay"},
                "output": {"type": "ext4", "device": "8:1", "options": "rw", "source": "/dev/sda"},
                "data": {"type": "ext4", "device": "8:1", "options": "ro", "source": "/dev/sda"},
            },
            "huge_pages": {"enabled": "madvise", "defrag": "madvise", "free": 0},
            "clock_source": "tsc",
            "namespaces": {"net": "net:[2]"},
            "environment": {"OMP_NUM_THREADS": "2", "HOME": "<output>", "PYTHONPATH": "<output>/w.whl"},
            "uid": 1000,
            "gid": 1000,
        },
        "software": {"torch": "2.13.0+cpu", "numpy": "2.4.6", "cpu_capability": "AVX512", "threads": 2},
        "libraries": {
            "/usr/bin/python3.11": "p1",
            "/usr/lib/x86_64-linux-gnu/libc.so.6": "c1",
            "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so": "t1",
            BLAS: "b1",
        },
        "check": {
            "losses": LOSSES,
            "loss_hex": [loss.hex() for loss in LOSSES],
            "parameters": 85098,
            "samples_seen": 3072,
            "data_sha256": "d",
        },
    }
    for dotted, value in changes.items():
        *parents, last = dotted.split("__")
        node = made
        for parent in parents:
            node = node[parent]
        node[last] = value
    return made


def as_chroot(made: dict[str, Any]) -> dict[str, Any]:
    """The same without isolation."""
    made = copy.deepcopy(made)
    made["launch"] |= {"runtime": "chroot", "options": {"user_namespace": False}, "engine": {}}
    process = made["process"]
    process["status"] |= {"Seccomp": "0", "CapEff": "1ff"}
    process["cgroup"], process["namespaces"] = {"cpu": "/"}, {"net": "net:[1]"}
    process["ulimits"] = {"memlock": ["unlimited", "unlimited"]}
    process["shm"] |= {"bytes": 2**34, "free_bytes": 2**34 - 4096}
    process["mounts"]["/"] |= {"type": "ext4", "device": "8:1", "options": "ro"}
    return made


def as_host(made: dict[str, Any]) -> dict[str, Any]:
    """The same with the machine's own files: a venv with the same wheels, another interpreter build and glibc."""
    made = as_chroot(made)
    made["launch"] |= {"runtime": "host", "image_digest": None}
    made["process"]["interpreter"] |= {"version": "3.11.9 (main, Ubuntu)"}
    made["process"]["glibc"] = "glibc 2.39"
    made["libraries"] = {
        "/usr/bin/python3.11": "p2",
        "/usr/lib/x86_64-linux-gnu/libc.so.6": "c2",
        "<cache>/venvs/x/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so": "t1",
        "<cache>/venvs/x/lib/python3.11/site-packages/numpy.libs/" + BLAS.rpartition("/")[2]: "b1",
    }
    return made


DOCKER = fingerprint()
CHROOT = as_chroot(DOCKER)
HOST = as_host(DOCKER)


def test_same_files_in_docker_and_chroot_are_the_same() -> None:
    result = compare(CHROOT, DOCKER, "chroot", "docker")
    assert (result.status, result.fields, result.warnings, result.speculation) == ("same", (), (), ())
    assert result.isolation == (
        "launch.engine.host_config.Init",
        "launch.options.user",
        "launch.options.user_namespace",
        "process.cgroup.cpu",
        "process.mounts./.device",
        "process.mounts./.options",
        "process.mounts./.type",
        "process.namespaces.net",
        "process.shm.bytes",
        "process.status.CapEff",
        "process.status.Seccomp",
        "process.ulimits.memlock",
    )
    assert result.details["process.status.Seccomp"] == ("0", "2")


def test_pair_with_host_is_isolation_and_userland() -> None:
    result = compare(HOST, DOCKER, "host", "docker")
    assert result.status == "userland"
    assert result.fields == (
        "libraries.libc.so.6",
        "libraries.python3.11",
        "process.glibc",
        "process.interpreter.version",
    )
    assert result.details["process.glibc"] == ("glibc 2.39", "glibc 2.36")
    assert "process.status.Seccomp" in result.isolation


def test_host_with_the_very_same_files_is_the_same() -> None:
    host = as_chroot(DOCKER)
    host["launch"] |= {"runtime": "host", "image_digest": None}
    assert compare(host, DOCKER, "host", "docker").status == "same"


def test_userland_that_differs_between_two_runs_of_an_image_is_different() -> None:
    other = as_chroot(fingerprint(process__glibc="glibc 2.31", launch__image_digest="sha256:2"))
    result = compare(other, DOCKER, "chroot", "docker")
    assert (result.status, result.fields) == ("different", ("launch.image_digest", "process.glibc"))


def test_case_1_another_blas_build_is_different_software_everywhere() -> None:
    """The official image, built from source with reference BLAS, beside a wheel with OpenBLAS."""
    slow = copy.deepcopy(DOCKER)
    del slow["libraries"][BLAS]
    slow["libraries"]["/usr/lib/x86_64-linux-gnu/blas/libblas.so.3"] = "r1"
    slow["software"] |= {"blas": "blas 3.11"}
    fast = copy.deepcopy(DOCKER)
    fast["software"] |= {"blas": "openblas 0.3.21"}
    for reference, name in ((as_chroot(fast), "chroot"), (as_host(fast), "host")):
        result = compare(reference, slow, name, "docker")
        assert result.status == "different"
        assert "software.blas" in result.fields
        assert any("libblas.so.3" in field for field in result.fields)
        assert any("libopenblas" in field for field in result.fields)
        assert result.details["software.blas"] == ("openblas 0.3.21", "blas 3.11")
        assert not any("glibc" in field for field in result.fields)  # only what decides is named


def test_case_1_same_version_text_but_other_blas_file_is_different() -> None:
    host = as_host(DOCKER)
    host["libraries"] = {
        path: "b2" if "openblas" in path else total for path, total in host["libraries"].items()
    }
    result = compare(host, DOCKER, "host", "docker")
    assert (result.status, result.fields) == (
        "different",
        ("libraries.numpy.libs/" + BLAS.rpartition("/")[2],),
    )


def test_case_2_another_framework_build_is_different() -> None:
    host = as_host(fingerprint(software__torch="2.13.0+cu126"))
    assert compare(host, DOCKER, "host", "docker").fields == ("software.torch",)


def test_case_3_interpreter_without_optimisation_is_userland_with_a_warning() -> None:
    image = copy.deepcopy(DOCKER)
    image["process"]["interpreter"] |= {"pgo": False, "lto": False}
    result = compare(HOST, image, "host", "docker")
    assert result.status == "userland"
    assert {"process.interpreter.pgo", "process.interpreter.lto"} <= set(result.fields)
    assert len(result.warnings) == 2
    assert "profile-guided optimisation (True and False)" in result.warnings[1]
    assert "link-time optimisation" in result.warnings[0]


def test_case_5_stray_variable_on_one_side_is_named() -> None:
    host = as_host(DOCKER)
    host["process"]["environment"]["OPENBLAS_CORETYPE"] = "Haswell"
    result = compare(host, DOCKER, "host", "docker")
    assert (result.status, result.fields) == ("different", ("process.environment.OPENBLAS_CORETYPE",))
    assert result.details["process.environment.OPENBLAS_CORETYPE"] == ("Haswell", "not set")


def test_case_5_run_options_are_part_of_the_details() -> None:
    limited = copy.deepcopy(DOCKER)
    limited["launch"]["options"]["memory_bytes"] = 16 * 2**30
    result = compare(CHROOT, limited, "chroot", "docker")
    assert result.status == "same"
    assert result.details["launch.options.memory_bytes"] == ("not set", "17179869184")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("software__cpu_capability", "AVX2"),  # case 8
        ("software__threads", 1),
        ("process__quota_cpus", 1.0),
        ("process__affinity", [0]),
        ("process__effective_cpus", 1),
        ("process__mounts__data__device", "0:60"),
        ("process__mounts__data__type", "overlay"),
        ("process__clock_source", "hpet"),
        ("process__huge_pages__enabled", "always"),
        ("process__kernel", "6.2"),
        ("launch__data_sha256", "other"),
        ("launch__lock_sha256", "other"),
        ("check__parameters", 85099),
        ("check__samples_seen", 3071),
        ("check__data_sha256", "other"),
        ("node__governor", "powersave"),
        ("node__machine_id", "other"),
    ],
)
@pytest.mark.parametrize("reference", ["chroot", "host"])
def test_what_must_be_equal_in_every_pair(field: str, value: object, reference: str) -> None:
    changed = fingerprint(**{field: value})
    result = compare(CHROOT if reference == "chroot" else HOST, changed, reference, "docker")
    assert (result.status, result.fields) == ("different", (field.replace("__", "."),))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("process__shm__free_bytes", 1),
        ("process__huge_pages__free", 9),
        ("check__losses", [1.0]),
        ("check__seconds", 3.2),
        ("launch__argv", ["x"]),
    ],
)
def test_what_is_volatile_or_follows_from_the_runtime_is_not_even_listed(field: str, value: object) -> None:
    result = compare(DOCKER, fingerprint(**{field: value}), "docker", "docker")
    assert (result.status, result.details) == ("same", {})


TOGGLED: list[tuple[dict[str, Any], str]] = [
    ({"launch__options__cpus": 2.0, "process__quota_cpus": 2.0}, "process.quota_cpus"),
    ({"launch__options__cpuset": "0-1", "process__affinity": [0, 2]}, "process.affinity"),
    (
        {
            "launch__options__cap_add": ["SYS_PTRACE"],
            "software__variables": {"OMPI_MCA_btl_vader_single_copy_mechanism": "cma"},
        },
        "software.variables.OMPI_MCA_btl_vader_single_copy_mechanism",
    ),
]


@pytest.mark.parametrize(("changes", "field"), TOGGLED)
def test_what_a_variant_toggles_is_its_treatment(changes: dict[str, Any], field: str) -> None:
    plain = fingerprint(software__variables={"OMPI_MCA_btl_vader_single_copy_mechanism": "none"})
    changed = fingerprint(**{"software__variables": plain["software"]["variables"], **changes})
    found = compare(plain, changed, "docker", "docker")
    option = next(name for name in changes if name.startswith("launch")).replace("__", ".")
    assert (found.status, found.fields) == ("same", ())
    assert found.isolation == tuple(sorted([field, option]))
    assert set(found.details) == {field, option}


@pytest.mark.parametrize(("changes", "field"), TOGGLED)
def test_the_same_difference_is_a_fault_where_nothing_was_toggled(
    changes: dict[str, Any], field: str
) -> None:
    plain = fingerprint(software__variables={"OMPI_MCA_btl_vader_single_copy_mechanism": "none"})
    unasked = {name: value for name, value in changes.items() if not name.startswith("launch")}
    changed = fingerprint(**{"software__variables": plain["software"]["variables"], **unasked})
    found = compare(plain, changed, "docker", "docker")
    assert (found.status, found.fields) == ("different", (field,))


def test_a_quota_that_bites_is_another_machine() -> None:
    changes = {
        "launch__options__cpus": 1.0,
        "process__quota_cpus": 1.0,
        "process__effective_cpus": 1,
    }
    found = compare(fingerprint(), fingerprint(**changes), "docker", "docker")
    assert (found.status, found.fields) == ("different", ("process.effective_cpus",))


def test_case_9_speculation_flags_are_listed_and_leave_the_status() -> None:
    mitigated = copy.deepcopy(DOCKER)
    mitigated["process"]["status"]["Speculation_Store_Bypass"] = "thread force mitigated"
    result = compare(CHROOT, mitigated, "chroot", "docker")
    assert result.status == "same"
    assert result.speculation == ("process.status.Speculation_Store_Bypass",)
    assert result.details[result.speculation[0]] == ("vulnerable", "thread force mitigated")
    assert "seccomp=unconfined" in result.warnings[0]


@pytest.mark.parametrize("part", ["node", "launch", "process", "software", "libraries"])
def test_what_was_not_recorded_is_not_proved(part: str) -> None:
    for absent in ({**DOCKER, part: None}, {k: v for k, v in DOCKER.items() if k != part}):
        result = compare(CHROOT, absent, "chroot", "docker")
        assert result.status == "different"
        assert part in result.fields
        assert result.details[part] == ("recorded", "not recorded")


def test_a_library_only_one_side_loads_is_shown() -> None:
    more = copy.deepcopy(DOCKER)
    more["libraries"]["/usr/lib/libnuma.so.1"] = "9" * 64
    result = compare(CHROOT, more, "chroot", "docker")
    assert result.fields == ("libraries./usr/lib/libnuma.so.1",)
    assert result.details[result.fields[0]] == ("not loaded", "9" * 16)
    assert compare(HOST, more, "host", "docker").status == "userland"


def test_libraries_of_the_same_name_are_told_apart_across_userlands() -> None:
    """Two files of one name on a side are compared as the files they are, not as the last of them."""
    image, host = copy.deepcopy(DOCKER), as_host(DOCKER)
    image["libraries"] |= {"/usr/lib/a/libx.so": "1", "/usr/lib/b/libx.so": "2"}
    host["libraries"] |= {"/opt/a/libx.so": "1", "/opt/b/libx.so": "2"}
    assert not [f for f in compare(host, image, "host", "docker").fields if "libx" in f]
    host["libraries"]["/opt/a/libx.so"] = "3"
    assert "libraries.libx.so" in compare(host, image, "host", "docker").fields


def test_long_values_are_shown_where_they_part() -> None:
    left, right = "a" * 400 + "AVX2" + "z" * 400, "a" * 400 + "AVX512" + "z" * 400
    result = compare(
        as_chroot(fingerprint(software__config=left)), fingerprint(software__config=right), "chroot", "docker"
    )
    one, other = result.details["software.config"]
    assert one.startswith("…" + "a" * 17 + "AVX2z")
    assert other.startswith("…" + "a" * 17 + "AVX512z")
    assert max(len(one), len(other)) <= 161


def test_parity_is_symmetric_in_status_and_fields() -> None:
    other = fingerprint(process__quota_cpus=1.0)
    one, two = compare(HOST, other, "host", "docker"), compare(other, HOST, "docker", "host")
    assert (one.status, one.fields) == (two.status, two.fields)
    assert one.details["process.quota_cpus"] == two.details["process.quota_cpus"][::-1]


def test_every_field_has_a_rule_and_every_rule_a_known_class() -> None:
    assert {rule.kind for rule in parity_fields.RULES} == set(parity_fields.CLASSES)
    for name in parity_fields.flatten({k: v for k, v in DOCKER.items() if k != "libraries"}):
        assert parity_fields.rule_of(name)
    with pytest.raises(KeyError, match=r"no parity rule for field 'weather\.today'"):
        parity_fields.rule_of("weather.today")


def test_parity_needs_the_standard_library_only() -> None:
    for module in (parity, parity_fields):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        imported = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
        }
        assert imported <= {*sys.stdlib_module_names, "tare"}


def run_with(*losses: float, software: str = "torch") -> dict[str, Any]:
    return {"check": {"loss_hex": [loss.hex() for loss in losses]}, "software": {software: "1"}}


ONE_ULP = math.nextafter(1.0, 2.0)


def test_losses_equal_bit_for_bit() -> None:
    runs = [run_with(2.0, 1.0)] * 3
    assert compare_losses(runs, runs, "chroot", "docker") == parity.Parity("same")
    assert compare_losses(runs, runs, "host", "docker") == parity.Parity("same")


def test_one_bit_is_too_much_between_runtimes_that_repeat_themselves() -> None:
    left, right = [run_with(2.0, 1.0)] * 3, [run_with(2.0, ONE_ULP)] * 3
    result = compare_losses(left, right, "chroot", "docker")
    assert (result.status, result.fields) == ("different", ("check.losses",))
    assert result.details["check.losses"] == "largest relative difference 2.22e-16 (spread of one side 0)"


def test_losses_may_differ_by_the_spread_of_one_side() -> None:
    noisy = [run_with(2.0, 1.0), run_with(2.0, 1.001), run_with(2.0, 0.999)]
    inside, outside = [run_with(2.0, 1.0015)] * 3, [run_with(2.0, 1.0025)] * 3
    good = compare_losses(noisy, inside, "chroot", "docker")
    assert good.status == "same"
    assert good.details["check.losses"] == "largest relative difference 0.0015 (spread of one side 0.002)"
    assert compare_losses(noisy, outside, "chroot", "docker").status == "different"
    assert compare_losses(inside, noisy, "chroot", "docker").status == "same"


def test_losses_with_host_have_the_tolerance_of_the_stack() -> None:
    host = [run_with(2.0, 1.0)] * 2
    near, far = [run_with(2.0, 1.0009)] * 2, [run_with(2.0, 1.0011)] * 2
    result = compare_losses(host, near, "host", "docker")
    assert (result.status, result.fields) == ("same", ())
    assert (
        result.details["check.losses"] == "largest relative difference 0.0009 (tolerance of the stack 0.001)"
    )
    assert compare_losses(host, far, "host", "docker").status == "different"
    assert parity.LOSS_TOLERANCE == {"torch": 1e-3}


def test_single_runs_that_differ_prove_nothing() -> None:
    result = compare_losses([run_with(1.0)], [run_with(ONE_ULP)], "chroot", "docker")
    assert (result.status, result.fields) == ("unknown", ("check.losses",))
    assert "measure more blocks" in result.details["check.losses"]


def test_workload_without_losses_has_nothing_to_compare() -> None:
    assert compare_losses([{"check": {}}], [{"check": None}, {}], "chroot", "docker").status == "same"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([run_with(1.0, 2.0)], [run_with(1.0)]),
        ([run_with(1.0)], [{"check": {}}]),
        ([run_with(1.0)], []),
    ],
)
def test_other_number_of_losses_is_different(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    assert compare_losses(left, right, "chroot", "docker").status == "different"
