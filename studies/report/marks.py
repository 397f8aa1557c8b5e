"""Verdicts on claims of papers, and the rules for these verdicts."""

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

from .results import QUIET_CORES, value

# Smallest share of complete frames for a verdict about latency (a guess). Latency is measured for complete frames only,
# and the missing frames might be the slowest ones.
ENOUGH_COMPLETE = 0.9
# Minimum number of independent runs for a verdict (a guess). With two runs, the interval depends on one difference. The
# Unity study has three trials per condition.
FEWEST_RUNS = 3


# The benches' default durations of a measurement, in seconds. Shorter runs count as quick.
USUAL_S = {
    "bench ablation": 4,
    "bench latency": 20,
    "bench peers": 8,
    "bench quality": 6,
    "bench sync": 6,
    "bench web": 8,
}


class Mark(enum.Enum):
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    # The claim was measured, but the data is insufficient: noise, too few runs, a quick run, or a busy machine.
    INCONCLUSIVE = "inconclusive"
    # The bench, or the part of it that measures the claim, has no result.
    NOT_MEASURED = "not measured"
    # A prerequisite is missing on this machine, such as a radio, a graphics card, or people.
    NOT_TESTABLE = "not testable here"


DECIDED = (Mark.REPRODUCED, Mark.NOT_REPRODUCED)


@dataclass(frozen=True)
class Verdict:
    mark: Mark
    why: str


@dataclass(frozen=True)
class Tolerance:
    """The bound of a claim, written down before the measurement."""

    # The condition of a reproduction, in words, with its bound.
    criterion: str
    # The bound, as the judge uses it. None if each row of the result file has its own bound.
    bound: float | None
    # The reason for this bound.
    reason: str


@dataclass(frozen=True)
class Claim:
    """A claim of a paper."""

    # The paper's section or figure.
    place: str
    # The claim's statement, with the paper's figures.
    text: str
    tolerance: Tolerance
    # The names of the benches and studies whose results are judged, such as `bench latency`.
    sources: tuple[str, ...]
    # Returns the verdict on the results with the tolerance's bound, or None if there is no data.
    judge: Callable
    # Choices that differ from the paper, or that were made after the measured figure was known.
    chosen: str = ""
    # Whether a busy machine changes the figures. It does not change those of a simulation.
    is_timed: bool = True
    # Whether the judge itself checks the conditions of each cell.
    is_by_cell: bool = False

    def verdict(self, results):
        """The verdict. A quick run decides nothing; on a busy machine, a claim about times is not decided."""
        found = self.judge(results, self.tolerance.bound)
        if found is None:
            commands = " and ".join(f"openuvr {source}" for source in self.sources)
            return Verdict(Mark.NOT_MEASURED, f"no result file of {commands} has this figure")
        if found.mark not in DECIDED or self.is_by_cell:
            return found
        used = [result for source in self.sources for result in _made_by(results, source)]
        if any(result.is_quick for result in used):
            return doubted(found, "a quick run decides nothing")
        if any(is_short(result) for result in used):
            return doubted(found, "a run shorter than the bench's default duration decides nothing")
        if any(result.get("incomplete") for result in used):
            return doubted(found, "a part of the measurement failed")
        if any(result.get("unreliable") for result in used):
            return doubted(found, "a part of the measurement is unreliable")
        if self.is_timed and any(result.other_cores > QUIET_CORES for result in used):
            return doubted(found, "the machine was busy with other processes")
        return found


def _made_by(results, source):
    """The results of a bench or study with the options of `source`, such as those of `bench quality --batches`. A
    result without its command may have had any options."""
    name, *options = source.split(" --")
    made = results.of(name)
    return [result for result in made if all(f"--{option}" in result.get("command", source) for option in options)]


def is_short(result):
    """Whether a measurement is shorter than by default. `bench latency` records the duration of each case."""
    durations = [result.get("seconds"), *(value(case, "setting/seconds") for case in result.get("cases", []))]
    return any(seconds < USUAL_S.get(result.name, 0) for seconds in durations if seconds is not None)


def doubted(found, doubt):
    """The verdict without its decision, if there is a reason for doubt; `found` and `doubt` may be None."""
    if found is None or found.mark not in DECIDED or not doubt:
        return found
    return Verdict(Mark.INCONCLUSIVE, f"{found.why}; {doubt}")


def few_complete(shares):
    """The reason why these shares of complete frames, one per run, allow no verdict about latency; None otherwise."""
    shares = list(shares)
    if None in shares:
        return "the share of complete frames is unknown"
    least = min(shares, default=1.0)
    if least < ENOUGH_COMPLETE:
        return f"in a run, only {100 * least:.0f} % of the frames were complete"
    return None


@dataclass(frozen=True)
class Check:
    """A measured quantity with its confidence interval, and the range in which the claim holds."""

    # The measured quantity: an `Estimate` or an `Interval`.
    found: object
    least: float = -math.inf
    most: float = math.inf

    @property
    def has_interval(self):
        return self.found.low is not None and self.found.runs >= FEWEST_RUNS

    @property
    def holds(self):
        return self.least < self.found.low and self.found.high < self.most

    @property
    def fails(self):
        return self.found.high < self.least or self.found.low > self.most


def judged(checks, why):
    """The verdict on intervals. Only this function decides whether a claim is reproduced or not.

    Reproduced: each interval lies strictly within its range. Not reproduced: at least one interval lies
    completely outside its range. Inconclusive: otherwise, or if there are too few runs. Returns None without checks.
    """
    checks = list(checks)
    if not checks:
        return None
    if not all(check.has_interval for check in checks):
        runs = min(check.found.runs for check in checks)
        return Verdict(Mark.INCONCLUSIVE, f"{why}; a verdict needs {FEWEST_RUNS} runs, but there are only {runs}")
    if all(check.holds for check in checks):
        return Verdict(Mark.REPRODUCED, why)
    return Verdict(Mark.NOT_REPRODUCED if any(check.fails for check in checks) else Mark.INCONCLUSIVE, why)


_NEVER = Tolerance("–", None, "")


def not_testable(place, text, why, measured=lambda _: ""):
    """A claim whose test needs equipment that this machine lacks. `measured` returns the nearest measured figures."""

    def judge(results, _):
        found = measured(results)
        return Verdict(Mark.NOT_TESTABLE, f"{why}. {found}" if found else why)

    return Claim(place, text, _NEVER, (), judge)
