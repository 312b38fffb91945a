"""ioping's raw lines and JSON (recorded from 1.3): what is read, and everything that is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tare.workloads import ioping_output
from tare.workloads.ioping_output import Line, OutputError, json_times, rates, raw_lines, request_times

#: ioping -B -C -R -P 0.1: intervals that grow faster while the file is being cached, and the whole
INTERVALS = """\
2011 99851268 20140 82493254 721 49653 306977 16010 2012 100000154
2245 99877137 22478 92068318 411 44489 2252984 54744 2245 100012382
22726 99210257 229069 938266857 361 4365 3005818 29193 22726 49000119
155222 994038904 156153 639602041 360 6404 4167449 31071 155223 1000001228
"""
#: ioping -B -p 1: the first request is not counted with the second line's total of 2
SINGLE = """\
1 1332 750751 3075075075 1332 1332 1332 0 2 3395
1 951 1051525 4307045216 951 951 951 0 1 6199
2 2283 876040 3588260521 951 1141 1332 190 3 12000
"""


def test_lines_are_read_by_their_columns() -> None:
    assert raw_lines(SINGLE)[0] == Line(1, 1332, 1332, 2, 3395)
    assert len(raw_lines(INTERVALS)) == 4


def test_rate_is_that_of_the_time_in_requests() -> None:
    lines = raw_lines(INTERVALS)
    # column 3 of ioping, which prints whole numbers
    assert [int(rate) for rate in rates(lines, 0.1)] == [20139, 22477]
    assert int(lines[-1].rate()) == 156152


def test_a_run_without_a_whole_interval_gives_the_rate_of_all() -> None:
    lines = raw_lines(INTERVALS)
    assert rates(lines[2:], 0.1) == [lines[-1].rate()]
    assert rates([Line(0, 0, 0, 1, 10**9)], 0.1) == []


def test_an_interval_without_a_request_has_no_rate() -> None:
    assert rates([Line(0, 0, 0, 0, 10**8), Line(4, 2 * 10**9, 1, 5, 2 * 10**9)], 0.1) == [2.0]


def test_every_request_has_its_time() -> None:
    assert request_times(raw_lines(SINGLE)) == [1332, 951]


@pytest.mark.parametrize(
    "lines",
    [
        [Line(1, 5, 5, 2, 9), Line(2, 9, 4, 3, 20)],  # one is missing
        [Line(2, 9, 4, 3, 20), Line(2, 9, 4, 3, 20)],  # two in one line
        [Line(1, 5, 5, 2, 9), Line(1, 4, 4, 1, 9), Line(1, 5, 5, 2, 20)],  # one too many
    ],
)
def test_requests_that_do_not_add_up_are_refused(lines: list[Line]) -> None:
    with pytest.raises(OutputError, match="requests one by one, "):
        request_times(lines)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "--- f (ext4 /dev/vda 252.0 GiB) ioping statistics ---\n",
        "1 1332 750751 3075075075 1332 1332 1332 0 2\n",  # a column less
        "1 1.3 750751 3075075075 1332 1332 1332 0 2 3395\n",  # another unit
        "1 -5 750751 3075075075 1332 1332 1332 0 2 3395\n",
    ],
)
def test_anything_but_raw_lines_is_refused(text: str) -> None:
    with pytest.raises(OutputError, match=r"ioping printed"):
        raw_lines(text)


def entry(time: Any, ignored: bool = False) -> dict[str, Any]:
    return {"io": {"request": 1, "operation": "read", "size": 4096, "time": time, "ignored": ignored}}


def test_json_times_are_those_that_ioping_counts() -> None:
    text = json.dumps([entry(216712, True), entry(179307), entry(147320), {"stat": {"count": 2}}])
    assert json_times(text) == [179307, 147320]


@pytest.mark.parametrize(
    "text", ["", "[", '{"io": 1}', "[1]", '[{"io": {"time": 5}}]', json.dumps([entry(None)])]
)
def test_anything_but_its_json_is_refused(text: str) -> None:
    with pytest.raises(OutputError, match="ioping's JSON cannot be read"):
        json_times(text)


def test_whole_intervals_are_half_an_interval_at_least() -> None:
    assert ioping_output.WHOLE_INTERVAL == 0.5
    whole = Line(4, 2 * 10**9, 1, 5, 2 * 10**9)
    assert rates([Line(1, 10**8, 1, 1, 5 * 10**7), whole], 0.1) == [10.0]
    assert rates([Line(1, 10**8, 1, 1, 5 * 10**7 - 1), whole], 0.1) == [2.0]
