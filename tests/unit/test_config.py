from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tare import config
from tare.config import ConfigError, load

ROOT = Path(__file__).parents[2]


def test_the_schema_in_the_repository_is_the_one_of_the_code() -> None:
    path = ROOT / "config/schemas/study.schema.json"
    difference = "".join(
        difflib.unified_diff(
            path.read_text().splitlines(keepends=True),
            config.json_schema().splitlines(keepends=True),
            "config/schemas/study.schema.json",
            "generated",
        )
    )
    assert not difference, f"mend with: python scripts/write_schema.py\n{difference}"


def test_the_config_file_states_every_default() -> None:
    """The file is the manual: what it shows must be what the code does without it."""
    given_config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    assert load(given_config) == load({})
    assert sorted(given_config) == sorted(config.Study.model_fields)


def test_every_preset_is_a_valid_study_with_a_name_of_its_own() -> None:
    base = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    names = [base["study"]]
    for preset in sorted((ROOT / "config/presets").glob("*.yaml")):
        names.append(load(base | yaml.safe_load(preset.read_text())).study)
    assert len(names) > 1
    assert len(set(names)) == len(names)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"blocs": 3}, "blocs: unknown key; did you mean 'blocks'?"),
    ({"blocks": 1}, "blocks: Input should be greater than or equal to 2 (given: 1)"),
    ({"blocks": "many"}, "blocks: "),
    ({"margin": 0}, "margin: Input should be greater than 0"),
    ({"runtimes": ["host", "dokcer"]}, "runtimes: 'dokcer' is not possible; did you mean 'docker'?"),
    ({"runtimes": ["host", "host"], "comparisons": []}, "runtimes: 'host' is listed twice"),
    ({"runtimes": ["host"]}, "comparisons[0]: 'docker' is not among runtimes (host)"),
    (
        {"comparisons": [{"treatment": "host", "reference": "host"}]},
        "treatment and reference are both 'host'",
    ),
    ({"control": "docker-pure"}, "control: 'docker-pure' is not among runtimes"),
    ({"cells": [{"workload": "hpc"}]}, "unknown workload 'hpc'; did you mean 'hp"),
    ({"cells": [{"workload": "hpcc", "factors": {"N": 1}}]}, "hpcc has no factor 'N'; did you mean 'n'?"),
    (
        {"cells": [{"workload": "hpcc", "factors": {"n": 0}}]},
        "n=0 is not possible; allowed: quick, full, an integer",
    ),
    ({"cells": [{"workload": "hpcc", "factors": {"n": []}}]}, "empty list of levels"),
    ({"cells": [{"workload": "hpcc"}, {"workload": "hpcc"}]}, "cells: 'hpcc' is listed twice"),
    ({"cells": [{"workload": "hpcc", "stack": "torch"}]}, "hpcc cannot use stack 'torch'; allowed: hpc"),
    (
        {"cells": [{"workload": "train-torch-fcn5", "factors": {"cache": "could"}}]},
        "cache='could' is not possible; did you mean 'cold'?",
    ),
    ({"cells": [{"workload": "train-torch-fcn5", "factors": {"batch": "big"}}]}, "allowed: an integer ≥ 1"),
    (
        {"cells": [{"workload": "train-torch-fcn5", "factors": {"batch": True}}]},
        "True is not possible; a level is a text",
    ),
    ({"disturbance": {"steel": 1}}, "disturbance.steel: unknown key; did you mean 'steal'?"),
    ({"study": "software"}, "study: 'software' cannot be a folder's name here"),
    ({"study": "../x"}, "study: '../x' cannot be a folder's name here"),
    ({"software": {"base": {"source": "registry", "image": "debian:12"}}}, "must be pinned as name@sha256:"),
    (
        {"software": {"base": {"surce": "bootstrap"}}},
        "software.base.surce: unknown key; did you mean 'source'?",
    ),
    ({"stacks": {"torch": {"recipe": "torch", "lock": "torch"}}}, "stacks: 'torch' must be a new name"),
    ({"threads": 0}, "threads"),
    ({"variants": {"docker": {"base": "docker", "label": "x"}}}, "variants: 'docker' must be a new name"),
    (
        {"variants": {"x": {"base": "docker", "label": "x", "without": ["cgroup"]}}},
        "'cgroup' cannot be left out of docker; allowed: overlay, pid",
    ),
    (
        {"variants": {"x": {"base": "host", "label": "x", "cpus": 2}}},
        "cpus: is not possible with base host; allowed options: none",
    ),
    (
        {"variants": {"x": {"base": "docker", "label": "x", "network": "vxlan"}}},
        "network: vxlan is not possible with base docker",
    ),
    ({"variants": {"x": {"base": "docker", "label": "x", "sekcomp": 1}}}, "sekcomp: unknown key"),
    ({"ladder": ["host"]}, "ladder: one runtime is no ladder"),
    ({"ladder": ["host", "chrot"]}, "ladder: 'chrot' is not possible; did you mean 'chroot'?"),
    ({"star": ["chroot"]}, "star: 'chroot' must be a variant whose base is docker or crun"),
    ({"cells": [{"workload": "startup", "runtimes": []}]}, "startup: runtimes is empty"),
    ({"cells": [{"workload": "startup", "runtimes": ["dokcer"]}]}, "did you mean 'docker'?"),
]


@pytest.mark.parametrize(("given_config", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_a_bad_entry_is_named_with_what_is_allowed(given_config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(given_config)
    assert message in str(refusal.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as refusal:
        load({"blocks": 1, "sed": 3})
    assert len(str(refusal.value).splitlines()) == 3


def test_lists_of_levels_make_one_cell_each_and_ids_name_what_differs() -> None:
    study = load(
        {
            "cells": [
                {"workload": "train-torch-fcn5", "factors": {"batch": [512, 1024], "cache": ["cold", "warm"]}}
            ]
        }
    )
    assert [cell.id for cell in study.expand()] == [
        "train-torch-fcn5",
        "train-torch-fcn5+cache=warm",
        "train-torch-fcn5+batch=1024",
        "train-torch-fcn5+batch=1024+cache=warm",
    ]
    assert study.expand()[0].factors == {
        "batch": 512,
        "samples": 2048,
        "epochs": 3,
        "workers": 0,
        "cache": "cold",
    }


def test_versions_of_one_stack_stand_side_by_side() -> None:
    study = load(
        {
            "stacks": {"torch-old": {"recipe": "torch", "lock": "torch-2.12"}},
            "cells": [
                {"workload": "train-torch-fcn5"},
                {"workload": "train-torch-fcn5", "stack": "torch-old"},
            ],
        }
    )
    assert [cell.id for cell in study.expand()] == ["train-torch-fcn5", "train-torch-fcn5+stack=torch-old"]
    assert study.recipe("torch-old") == ("torch", "torch-2.12")
    assert study.recipe("torch") == ("torch", "torch")


def test_the_control_is_the_reference_of_the_first_comparison() -> None:
    assert load({}).expand()[0].control == "chroot"
    assert load({"control": "docker"}).expand()[0].control == "docker"
    assert load({"runtimes": ["docker"], "comparisons": []}).expand()[0].control == "docker"


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.none() | st.integers() | st.text(), max_size=4))
def test_no_junk_gets_past_or_crashes_the_validation(junk: dict[str, Any]) -> None:
    try:
        study = load(junk)
    except ConfigError:
        return
    assert set(junk) <= set(config.Study.model_fields)
    assert study.expand()


ATTRIBUTED: dict[str, Any] = {
    "variants": {
        "rung": {"base": "crun", "without": ["seccomp"], "label": "namespaces"},
        "open": {"base": "docker", "without": ["seccomp"], "label": "seccomp"},
        "shm": {"base": "docker", "shm_bytes": 1, "label": "/dev/shm"},
    },
    "ladder": ["chroot", "rung", "docker"],
    "star": ["open"],
    "options": ["shm"],
    "cells": [{"workload": "startup"}, {"workload": "syscall", "runtimes": ["chroot", "docker", "open"]}],
}


def test_a_cell_is_measured_in_all_runtimes_unless_it_names_its_own() -> None:
    everywhere, own = load(ATTRIBUTED).expand()
    assert everywhere.runtimes == ("host", "chroot", "docker", "rung", "open", "shm")
    assert (own.runtimes, own.control) == (("chroot", "docker", "open"), "chroot")


def test_steps_are_between_neighbours_that_the_cell_has() -> None:
    study = load(ATTRIBUTED)
    everywhere, own = (study.contrasts(cell) for cell in study.expand())
    assert everywhere[3:] == (
        ("ladder", "namespaces", "rung", "chroot"),
        ("ladder", "engine", "docker", "rung"),
        ("star", "seccomp", "docker", "open"),
        ("option", "/dev/shm", "shm", "docker"),
    )
    assert own == (("runtime", None, "docker", "chroot"), ("star", "seccomp", "docker", "open"))
