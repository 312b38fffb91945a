"""The input and output files of HPC Challenge: hpccinf.txt is written, hpccoutf.txt is read. No process here.

Format of both: README of hpcc 1.5.0. The problem sizes of all its parts follow from HPL's N.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict, List, NamedTuple, Tuple

from tare.workloads.declaration import Level
from tare.workloads.samples import sample

#: block size of HPL: within what OpenBLAS's kernels like
NB = 192
#: N of the quick level, 21 blocks: all of hpcc takes 4–5 s on two cores. From 4096 on the RandomAccess tables
#: double, and its two MPI variants take most of the time already.
QUICK_N = 4032
#: share of the memory that the matrix of the level ``full`` fills, and the largest share that is accepted
FULL_SHARE, LARGEST_SHARE = 0.70, 0.80
DOUBLE = 8
#: HPCC's own rule: at most 1 % of the updates may be lost
RANDOM_ACCESS_ERRORS = 0.01
#: HPL ÷ (DGEMM × ranks) that a matrix of full size must reach
FULL_HPL_OVER_DGEMM = 0.85

#: metric → (key of the summary, factor to the SI unit, unit)
METRICS: Dict[str, Tuple[str, float, str]] = {
    "hpl_flops": ("HPL_Tflops", 1e12, "flop/s"),
    "dgemm_flops": ("StarDGEMM_Gflops", 1e9, "flop/s"),
    "stream_triad": ("StarSTREAM_Triad", 1e9, "B/s"),
    "fft_flops": ("MPIFFT_Gflops", 1e9, "flop/s"),
    "random_access": ("MPIRandomAccess_GUPs", 1e9, "update/s"),
    "ptrans": ("PTRANS_GBs", 1e9, "B/s"),
    "latency": ("AvgPingPongLatency_usec", 1e-6, "s"),
}
#: HPL's line on the residual of a solve
RESIDUAL_PASSED = re.compile(r"^\|\|Ax-b\|\|_oo.*\.\.\.\.\.\. PASSED$", re.MULTILINE)
#: ping-pong needs a partner
NEEDS_TWO_RANKS = ("latency",)


class Problem(NamedTuple):
    """The size of HPL and its process grid; ``p`` × ``q`` ranks."""

    n: int
    nb: int
    p: int
    q: int


class SizeError(ValueError):
    """A problem that does not fit this machine; the message says what does."""


def problem(level: Level, ranks: int, memory_bytes: int, quick_n: int = QUICK_N) -> Problem:
    """Return the problem of factor ``n``: ``quick``, ``full`` or a number; raises ``SizeError``."""
    largest = matrix_order(LARGEST_SHARE * memory_bytes)
    if level == "full":
        n = matrix_order(FULL_SHARE * memory_bytes) // NB * NB
    else:
        n = quick_n if level == "quick" else int(level)
    if not NB <= n <= largest:
        raise SizeError(
            "n: a matrix of order %d does not fit; with %d bytes of memory %d … %d is possible"
            % (n, memory_bytes, NB, largest)
        )
    p = max(divisor for divisor in range(1, math.isqrt(ranks) + 1) if ranks % divisor == 0)
    return Problem(n, NB, p, ranks // p)


def matrix_order(size: float) -> int:
    """Return the order of the largest square matrix of doubles in ``size`` bytes."""
    return math.isqrt(int(size) // DOUBLE)


def input_text(chosen: Problem, solves: int = 1) -> str:
    """Return hpccinf.txt: one problem, solved ``solves`` times; the other settings as HPCC ships them."""
    settings = [
        ("HPL.out", "output file name (if any)"),
        ("8", "device out (6=stdout,7=stderr,file)"),
        (solves, "# of problems sizes (N)"),
        (" ".join([str(chosen.n)] * solves), "Ns"),
        ("1", "# of NBs"),
        (chosen.nb, "NBs"),
        ("0", "PMAP process mapping (0=Row-,1=Column-major)"),
        ("1", "# of process grids (P x Q)"),
        (chosen.p, "Ps"),
        (chosen.q, "Qs"),
        ("16.0", "threshold"),
        ("1", "# of panel fact"),
        ("2", "PFACTs (0=left, 1=Crout, 2=Right)"),
        ("1", "# of recursive stopping criterium"),
        ("4", "NBMINs (>= 1)"),
        ("1", "# of panels in recursion"),
        ("2", "NDIVs"),
        ("1", "# of recursive panel fact."),
        ("1", "RFACTs (0=left, 1=Crout, 2=Right)"),
        ("1", "# of broadcast"),
        ("1", "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)"),
        ("1", "# of lookahead depth"),
        ("1", "DEPTHs (>=0)"),
        ("2", "SWAP (0=bin-exch,1=long,2=mix)"),
        ("64", "swapping threshold"),
        ("0", "L1 in (0=transposed,1=no-transposed) form"),
        ("0", "U  in (0=transposed,1=no-transposed) form"),
        ("1", "Equilibration (0=no,1=yes)"),
        ("8", "memory alignment in double (> 0)"),
        ("#####", "This line (no. 32) is ignored (it serves as a separator). ######"),
        ("0", "Number of additional problem sizes for PTRANS"),
        ("1200 10000 30000", "values of N"),
        ("0", "number of additional blocking sizes for PTRANS"),
        ("40 9 8 13 13 20 16 32 64", "values of NB"),
    ]
    title = ["HPLinpack benchmark input file", "Innovative Computing Laboratory, University of Tennessee"]
    return "\n".join(title + ["%-12s %s" % setting for setting in settings]) + "\n"


def section(text: str, name: str) -> str:
    """Return a section of hpccoutf.txt (`HPL`, `Summary`, …); empty when the run did not come to its end."""
    _, begun, rest = text.partition("Begin of %s section." % name)
    body, ended, _ = rest.partition("End of %s section." % name)
    return body if begun and ended else ""


def summary(text: str) -> Dict[str, str]:
    """Return the key=value lines of the summary section of hpccoutf.txt; empty when the run did not come to it."""
    lines = section(text, "Summary").splitlines()
    return dict(line.strip().split("=", 1) for line in lines if "=" in line)


def number(values: Dict[str, str], key: str) -> float:
    """Return a summary's value as a number, NaN when it is absent or no number."""
    try:
        return float(values[key])
    except (KeyError, ValueError):
        return math.nan


def samples(text: str, ranks: int) -> List[Dict[str, Any]]:
    """Return the ``sample`` events of an output: SI units, phase ``steady``; what is not positive is left out."""
    values = summary(text)
    found = []
    for metric, (key, factor, unit) in METRICS.items():
        value = number(values, key) * factor
        if value > 0 and not (ranks < 2 and metric in NEEDS_TWO_RANKS):
            found.append(sample(metric, unit, value))
    return found


def hpl_over_dgemm(text: str, ranks: int) -> float:
    """Return the rate of HPL over that of DGEMM on all ranks at once in the same run; NaN without both."""
    values = summary(text)
    dgemm = number(values, "StarDGEMM_Gflops") * ranks
    return number(values, "HPL_Tflops") * 1e3 / dgemm if dgemm > 0 else math.nan


def output_reasons(text: str, expected: Problem) -> List[str]:
    """Return what makes an output invalid: the tool's own verdicts, and whether it solved what was asked."""
    values = summary(text)
    if not values:
        return ["hpcc: hpccoutf.txt has no complete summary: the run did not come to its end"]
    reasons = []
    if values.get("Success") != "1":
        reasons.append("hpcc: Success=%s, must be 1" % values.get("Success"))
    for key, wanted in zip(("HPL_N", "HPL_NB", "HPL_nprow", "HPL_npcol"), expected):
        if values.get(key) != str(wanted):
            reasons.append("hpcc: %s=%s, %d was asked for" % (key, values.get(key), wanted))
    ranks = expected.p * expected.q
    if values.get("CommWorldProcs") != str(ranks):
        reasons.append("hpcc: %s ranks ran, %d were asked for" % (values.get("CommWorldProcs"), ranks))
    return reasons + _part_reasons(text, values, ranks)


def _part_reasons(text: str, values: Dict[str, str], ranks: int) -> List[str]:
    reasons = []
    if not RESIDUAL_PASSED.search(text):
        reasons.append("HPL: its residual did not pass")
    if re.search(r"^(WALL|CPU)\s.*\bFAILED\b", text, re.MULTILINE) or not re.search(
        r"^WALL\s.*\bPASSED\b", text, re.MULTILINE
    ):
        reasons.append("PTRANS: its check did not pass")
    failed = re.findall(r"^\s*([1-9]\d*) tests completed and failed residual checks", text, re.MULTILINE)
    if failed:
        reasons.append("hpcc: %s tests failed their residual checks" % ", ".join(failed))
    broken = [
        count for count in re.findall(r"^Node\(s\) with error (\d+)", text, re.MULTILINE) if count != "0"
    ]
    if broken:
        reasons.append("hpcc: a part reports %s node(s) with error" % ", ".join(broken))
    for part in ("MPIRandomAccess", "MPIRandomAccess_LCG"):
        fraction = number(values, part + "_ErrorsFraction")
        if not fraction <= RANDOM_ACCESS_ERRORS:
            reasons.append(
                "%s: share of lost updates %s, at most %s" % (part, fraction, RANDOM_ACCESS_ERRORS)
            )
    found = {sample["metric"] for sample in samples(text, ranks)}
    wanted = [name for name in METRICS if ranks > 1 or name not in NEEDS_TWO_RANKS]
    missing = [name for name in wanted if name not in found]
    if missing:
        reasons.append("hpcc: no positive value for %s" % ", ".join(missing))
    return reasons
