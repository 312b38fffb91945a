"""Differences of the machine's own software: in words first, whole once."""

import pytest
import synthetic_study as synthetic

from tare.analysis import report
from tare.analysis.publish import from_blocks
from tare.analysis.userland import Field, differences, words

OLD = "3.11.2 (main, Apr 28 2025, 14:11:48) [GCC 12.2.0]"
NEW = "3.11.2 (main, Oct  7 2026, 12:35:07) [GCC 12.2.0]"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {
                "process.interpreter.version": f"{OLD} ≠ {NEW}",
                "libraries.a.so": "x ≠ y",
                "libraries.b.so": "x ≠ y",
            },
            "the interpreter build (3.11.2 of Apr 28 2025 ≠ 3.11.2 of Oct 7 2026) and 2 library files differ",
        ),
        (
            {"process.interpreter.version": "3.11.9 ≠ 3.11.2"},
            "the interpreter build (3.11.9 ≠ 3.11.2) differs",
        ),
        # the same day: the whole text is all that tells them apart
        (
            {"process.interpreter.version": f"{OLD} ≠ {OLD.replace('GCC 12.2.0', 'Clang 17')}"},
            f"the interpreter build ({OLD} ≠ {OLD.replace('GCC 12.2.0', 'Clang 17')}) differs",
        ),
        ({"process.glibc": "2.36 ≠ 2.41"}, "C library (2.36 ≠ 2.41) differs"),
        ({"libraries.python3.11": "a ≠ b"}, "1 library file differs"),
        ({"software.packages.a": "1 ≠ 2", "software.packages.b": "1 ≠ 2"}, "2 packages differ"),
        (
            {"process.glibc": "2.36 ≠ 2.41", "check.losses": "1e-7"},
            "C library (2.36 ≠ 2.41) differs; losses differ within the stack's tolerance",
        ),
    ],
)
def test_words(fields, expected):
    assert words([Field(name, values, ("startup",)) for name, values in fields.items()]) == expected


@pytest.fixture
def data(tmp_path):
    of = synthetic.study(cells=[{"workload": "startup"}, {"workload": "train-torch-fcn5"}], blocks=2)

    def other(run):
        inside = run["runtime"] != "host"
        version = {"interpreter": {"version": OLD if inside else NEW}}
        names = ["_json.so"] if run["cell"] == "startup" else ["_json.so", "_bz2.so"]
        hashes = {f"/usr/lib/{name}": ("a" if inside else "b") * 16 for name in names}
        print_ = synthetic.fingerprint(run["runtime"], run["workload"], process=version, libraries=hashes)
        run["fingerprint"] = print_

    made = {(cell.id, n): synthetic.block(of, cell, n, change=other) for cell in of.expand() for n in (1, 2)}
    return from_blocks(of, synthetic.write_blocks(made, tmp_path), False)


def test_pairs_that_differ_alike_share_one_entry(data):
    (found,) = differences(data)
    assert found.sentence == (
        "docker ÷ host, chroot ÷ host: the interpreter build (3.11.2 of Oct 7 2026 ≠ 3.11.2 of Apr 28 2025) "
        "and 2 library files differ."
    )
    assert found.fields == (
        Field("libraries._bz2.so", f"{'b' * 16} ≠ {'a' * 16}", ("train-torch-fcn5",)),
        Field("libraries._json.so", f"{'b' * 16} ≠ {'a' * 16}", ("startup", "train-torch-fcn5")),
        Field("process.interpreter.version", f"{NEW} ≠ {OLD}", ("startup", "train-torch-fcn5")),
    )


def test_names_and_hashes_stand_once_in_the_page_and_never_in_the_summary(data):
    page, summary = report.html(data, {}), report.markdown(data)
    assert page.count("libraries._bz2.so") == 1
    assert page.count("b" * 16) == 2  # one for each file
    assert "The whole list: 3 fields" in page
    assert "libraries." not in summary
    assert "b" * 16 not in summary
    assert summary.count("and 2 library files differ") == 1


def test_without_difference_nothing_is_said(tmp_path):
    of = synthetic.study(
        cells=[{"workload": "startup"}],
        blocks=2,
        runtimes=["chroot", "docker"],
        comparisons=[{"treatment": "docker", "reference": "chroot"}],
    )
    made = {("startup", n): synthetic.block(of, of.expand()[0], n) for n in (1, 2)}
    data = from_blocks(of, synthetic.write_blocks(made, tmp_path), False)
    assert differences(data) == []
    assert "The whole list" not in report.html(data, {})
