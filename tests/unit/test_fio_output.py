"""fio's JSON (recorded from 3.33, random reads at depth 8): the numbers in SI units, and what refuses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tare.workloads import fio
from tare.workloads.fio_output import Job, OutputError, read_job, reasons, samples

RECORDED = Path(__file__).resolve().parents[1] / "data/fio/randread.json"


@pytest.fixture
def whole() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(RECORDED.read_text())
    return parsed


def job(whole: dict[str, Any]) -> Job:
    return read_job(json.dumps(whole), "read")


def test_numbers_are_in_si_units(whole: dict[str, Any]) -> None:
    read = whole["jobs"][0]["read"]
    found = {sample["metric"]: (sample["value"], sample["unit"]) for sample in samples(job(whole))}
    assert found == {
        "requests_per_second": (read["iops"], "request/s"),
        "bytes_per_second": (read["bw_bytes"], "B/s"),
        "completion_seconds_p50": (read["clat_ns"]["percentile"]["50.000000"] * 1e-9, "s"),
        "completion_seconds_p99": (read["clat_ns"]["percentile"]["99.000000"] * 1e-9, "s"),
        "completion_seconds_p999": (read["clat_ns"]["percentile"]["99.900000"] * 1e-9, "s"),
    }
    # fio's own kB are 1024 bytes, and its bw is in them: not what is read here
    assert found["bytes_per_second"][0] == pytest.approx(read["bw"] * 1024, rel=1e-3)
    assert found["bytes_per_second"][0] == pytest.approx(found["requests_per_second"][0] * 4096, rel=1e-3)


@pytest.mark.parametrize("workload", fio.WORKLOADS, ids=lambda workload: workload.name)
def test_samples_have_the_declared_metrics(whole: dict[str, Any], workload: Any) -> None:
    """Both rates are kept; the one that is not the pattern's own gets no verdict, being the same number again."""
    found = [(sample["metric"], sample["unit"], sample["phase"]) for sample in samples(job(whole))]
    declared = [(metric.name, metric.unit, metric.phase) for metric in workload.metrics]
    rates = ["requests_per_second", "bytes_per_second"]
    assert [name for name, _, _ in found[:2]] == rates
    assert declared[0] == found[rates.index("bytes_per_second" if "seq" in workload.name else rates[0])]
    assert declared[1:] == found[2:]


def test_recorded_job_did_what_it_was_told(whole: dict[str, Any]) -> None:
    found = job(whole)
    assert found.version == "fio-3.33"
    assert found.options["rw"] == "randread"
    assert reasons(found, "libaio", 8) == []


def test_another_engine_is_never_accepted_silently(whole: dict[str, Any]) -> None:
    """Case 11: an engine that one runtime forbids must not become another one there."""
    whole["jobs"][0]["job options"]["ioengine"] = "psync"
    assert reasons(job(whole), "libaio", 8) == [
        "fio ran with ioengine psync, not libaio: the runtimes would not do the same work"
    ]
    del whole["jobs"][0]["job options"]["ioengine"]
    assert "ioengine None" in reasons(job(whole), "libaio", 8)[0]


def test_options_may_stand_among_the_global_ones(whole: dict[str, Any]) -> None:
    whole["global options"] = {"ioengine": whole["jobs"][0]["job options"].pop("ioengine")}
    assert reasons(job(whole), "libaio", 8) == []


@pytest.mark.parametrize(("percent", "refused"), [(50.0, False), (49.9, True), (0.0, True)])
def test_depth_must_have_been_reached(whole: dict[str, Any], percent: float, refused: bool) -> None:
    whole["jobs"][0]["iodepth_level"]["8"] = percent
    found = reasons(job(whole), "libaio", 8)
    assert bool(found) is refused
    assert not refused or f"queue depth 8 was reached {percent:.0f} % of the time (needs 50 %)" in found[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"total_ios": 0}, "made no request"),
        ({"short_ios": 2}, "2 short and 0 dropped requests"),
        ({"drop_ios": 1}, "0 short and 1 dropped requests"),
        ({"clat_ns": {"min": 0}}, "shortest request took 0 ns"),
    ],
)
def test_numbers_that_cannot_be(whole: dict[str, Any], change: dict[str, Any], says: str) -> None:
    whole["jobs"][0]["read"].update(change)
    (reason,) = reasons(job(whole), "libaio", 8)
    assert says in reason


def test_an_error_of_the_job_is_a_reason(whole: dict[str, Any]) -> None:
    whole["jobs"][0]["error"] = 5
    assert reasons(job(whole), "libaio", 8) == ["fio's job ended with error 5"]


def test_a_percentile_that_is_absent_or_zero_is_no_sample(whole: dict[str, Any]) -> None:
    percentiles = whole["jobs"][0]["read"]["clat_ns"]["percentile"]
    percentiles["50.000000"] = 0
    del percentiles["99.000000"]
    found = [sample["metric"] for sample in samples(job(whole))]
    assert found == ["requests_per_second", "bytes_per_second", "completion_seconds_p999"]


@pytest.mark.parametrize("text", ["", "fio: note\n{}", "{}", '{"jobs": []}', '{"jobs": [{}, {}]}', "[]"])
def test_anything_but_one_job_is_refused(text: str) -> None:
    with pytest.raises(OutputError, match="fio's JSON cannot be read"):
        read_job(text, "read")


def test_words_before_the_json_are_refused() -> None:
    text = "note: both iodepth >= 1 and synchronous I/O engine are selected\n" + RECORDED.read_text()
    with pytest.raises(OutputError, match="both iodepth"):
        read_job(text, "read")
