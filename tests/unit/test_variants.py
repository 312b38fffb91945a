"""Variants of the config: what can be left out of which base, and what an option is compared with."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from tare import config
from tare.variants import FEATURES, LEFT_OUT, OPTIONS, POSSIBLE, Contrast, Variant


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            {"base": "docker", "without": ["cgroup"]},
            "without: 'cgroup' cannot be left out of docker; allowed: overlay, pid,",
        ),
        ({"base": "crun", "without": ["init"]}, "without: 'init' cannot be left out of crun"),
        ({"base": "host", "without": ["pid"]}, "'pid' cannot be left out of host; allowed: nothing"),
        ({"base": "docker", "user_namespace": True}, "user_namespace: is not possible with base docker"),
        ({"base": "crun", "log_driver": "none"}, "log_driver: is not possible with base crun"),
        ({"base": "host", "cpus": 1}, "cpus: is not possible with base host; allowed options: none"),
        ({"base": "crun", "network": "none"}, "network: none is not possible with base crun"),
        (
            {"base": "docker", "network": "none", "without": ["network"]},
            "network is set and left out at once",
        ),
        (
            {"base": "crun", "without": ["cgroup"], "cpuset": "all"},
            "cpuset: is a limit of the run's control group; take cgroup out of without",
        ),
    ],
)
def test_variant_that_cannot_be(entries: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Variant.model_validate({"label": "x", **entries})


def test_every_base_knows_features_and_options_only() -> None:
    assert all(set(features) <= set(FEATURES) for features in LEFT_OUT.values())
    assert all(set(options) <= set(OPTIONS) for options in POSSIBLE.values())


def study(**entries: Any) -> config.Study:
    return config.load({"cells": [{"workload": "startup"}], **entries})


QUOTA = {"base": "docker", "cpus": "all", "label": "quota"}
MAPPED = {"base": "crun", "user_namespace": True, "label": "user namespace"}
RUNG = {"base": "crun", "label": "seccomp"}


def test_option_is_compared_with_its_base_as_it_is() -> None:
    found = study(variants={"mine": QUOTA, "mapped": MAPPED}, options=["mine", "mapped"])
    assert found.measured_runtimes() == ("host", "chroot", "docker", "crun", "mine", "mapped")
    assert found.contrasts(found.expand()[0])[-2:] == (
        Contrast("option", "quota", "mine", "docker"),
        Contrast("option", "user namespace", "mapped", "crun"),
    )


def test_base_as_it_is_may_have_another_name_in_the_study() -> None:
    found = study(variants={"top": RUNG, "mapped": MAPPED}, ladder=["chroot", "top"], options=["mapped"])
    assert "crun" not in found.measured_runtimes()
    assert found.contrasts(found.expand()[0])[-1].reference == "top"


def test_attribution_climbs_from_the_host_to_docker_one_feature_at_a_time(repository: Path) -> None:
    text = (repository / "config/presets/attribution.yaml").read_text(encoding="utf-8")
    found = config.load(yaml.safe_load(text))
    assert (found.ladder[:2], found.ladder[-1]) == (("host", "chroot"), "docker")
    rungs = [set(found.variants[name].without) for name in found.ladder[2:-1]]
    assert rungs[0] == set(LEFT_OUT["crun"]) - {"overlay"}
    assert all(upper < lower for lower, upper in itertools.pairwise(rungs))
    assert rungs[-1] == set()
    left_out = {feature for name in found.star for feature in found.variants[name].without}
    assert left_out == set(LEFT_OUT["docker"])
    assert {one.user_namespace for name, one in found.variants.items() if name in found.options} == {
        True,
        False,
    }
