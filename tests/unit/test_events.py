from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tare.events import EventError, read_events

START = {"event": "start", "ns": 1, "pid": 2}
READY = {"event": "ready", "ns": 5, "counters": {"busy_seconds": 1.0}}
CHECK = {"event": "check", "ok": True, "reasons": [], "facts": {}}
END = {"event": "end", "ns": 9, "counters": {}}
STEP = {
    "event": "sample",
    "metric": "step_seconds",
    "phase": "steady",
    "epoch": 1,
    "index": 0,
    "ns": 2_500_000,
}


def write(path: Path, *events: Any) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_a_whole_run_counts(tmp_path: Path) -> None:
    figure = {
        "event": "sample",
        "metric": "hpl_flops",
        "phase": "steady",
        "epoch": None,
        "index": 0,
        "value": 7,
        "unit": "flop/s",
    }
    events = read_events(write(tmp_path / "e", START, READY, STEP, figure, CHECK, END))
    assert events.reasons() == []
    assert (events.start_ns, events.ready_ns) == (1, 5)
    assert [(s.metric, s.unit, s.value, s.epoch) for s in events.samples] == [
        ("step_seconds", "s", 0.0025, 1),
        ("hpl_flops", "flop/s", 7.0, None),
    ]


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([START, READY, CHECK], "no event end"),
        ([READY, CHECK, END], "no event start"),
        ([START, END], "no event ready, check"),
        ([], "no event start, ready, check, end"),
        ([START, {"event": "error", "kind": "ImportError", "message": "no torch"}], "ImportError: no torch"),
        ([START, READY, {**CHECK, "ok": False, "reasons": ["loss rose"]}, END], "loss rose"),
        ([START, READY, {**CHECK, "ok": False}, END], "failed without a reason"),
        ([START, READY, {**CHECK, "ok": None}, END], "failed without a reason"),
        ([START, READY, {**CHECK, "reasons": ["samples seen 3, expected 4"]}, END], "samples seen 3"),
    ],
)
def test_a_run_without_a_valid_check_has_a_reason(tmp_path: Path, events: list[Any], reason: str) -> None:
    reasons = read_events(write(tmp_path / "e", *events)).reasons()
    assert len(reasons) == 1
    assert reason in reasons[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage\n", "line 1: not JSON: 'garbage'"),
        ('{"event": "start", "ns": 1}\n{"event": "re', "line 2: not JSON"),
        ("[1, 2]\n", "line 1: not an object"),
        ('{"event": "dance"}\n{"event": "dance"}\n', "'dance' is unknown or comes twice"),
        ('{"no": "event"}\n', "event None is unknown"),
        ('{"event": "start", "ns": "soon"}\n', "start has no whole number of ns"),
        ('{"event": "start", "ns": true}\n', "start has no whole number of ns"),
        (json.dumps({**STEP, "ns": 0}), "step_seconds is 0.0, must be finite and > 0"),
        (json.dumps({**STEP, "ns": -4}), "must be finite and > 0"),
        (json.dumps({**STEP, "ns": "x"}), "not a sample"),
        (
            '{"event": "sample", "metric": "m", "phase": "steady", "index": 0, "value": NaN, "unit": "s"}',
            "is nan",
        ),
        ('{"event": "sample", "metric": "m", "phase": "steady", "index": 0, "value": 3}', "not a sample"),
    ],
)
def test_what_is_not_the_protocol_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "e"
    path.write_text(text)
    with pytest.raises(EventError) as refusal:
        read_events(path)
    assert message in str(refusal.value)


def test_no_file_and_binary_noise_are_reasons_too(tmp_path: Path) -> None:
    with pytest.raises(EventError, match="wrote no events"):
        read_events(tmp_path / "absent")
    (tmp_path / "e").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EventError, match="cannot be read"):
        read_events(tmp_path / "e")
