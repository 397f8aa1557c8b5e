"""Verdicts on claims of papers, and the rules that all of them obey."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from .results import QUIET_CORES


class Mark(enum.Enum):
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    # The claim was measured, but the data does not suffice: noise, a single or quick run, or a busy machine.
    INCONCLUSIVE = "inconclusive"
    # The bench, or this part of it, has not run.
    NOT_MEASURED = "not measured"
    # A prerequisite is missing on this machine, such as a radio, a graphics card, or people.
    NOT_TESTABLE = "not testable here"


DECIDED = (Mark.REPRODUCED, Mark.NOT_REPRODUCED)


@dataclass(frozen=True)
class Verdict:
    mark: Mark
    why: str


@dataclass(frozen=True)
class Claim:
    """A claim of a paper."""

    # The paper's section or figure.
    place: str
    # The claim's statement, with the paper's figures.
    text: str
    # The criterion of a reproduction, with its bound.
    criterion: str
    # The names of the result files that are judged.
    sources: tuple[str, ...]
    # Returns the verdict on the results, or None if there is no data.
    judge: Callable
    # Whether a busy machine changes the figures. It does not change those of a simulation.
    is_timed: bool = True
    # Whether the judge itself checks the conditions of each cell.
    is_by_cell: bool = False

    def verdict(self, results):
        """The verdict; a quick run or a busy machine decides nothing."""
        found = self.judge(results)
        if found is None:
            commands = " and ".join(f"openuvr {source}" for source in self.sources)
            return Verdict(Mark.NOT_MEASURED, f"no data: {commands} measures it")
        if found.mark not in DECIDED or self.is_by_cell:
            return found
        used = [result for source in self.sources for result in results.of(source.split(" --")[0])]
        if any(result.is_quick for result in used):
            return Verdict(Mark.INCONCLUSIVE, f"{found.why}; a quick run decides nothing")
        if self.is_timed and any(result.other_cores > QUIET_CORES for result in used):
            return Verdict(Mark.INCONCLUSIVE, f"{found.why}; the machine was busy with other processes")
        return found


def decide(holds, fails, why):
    """Reproduced if it holds with confidence, not reproduced if it fails with confidence."""
    if holds:
        return Verdict(Mark.REPRODUCED, why)
    return Verdict(Mark.NOT_REPRODUCED if fails else Mark.INCONCLUSIVE, why)


def at_least(estimate, bound, why):
    """Judges the 95 % interval of an estimate against a lower bound; a single run decides nothing."""
    if estimate.half is None:
        return Verdict(Mark.INCONCLUSIVE, f"{why}; a single run has no confidence interval")
    return decide(estimate.low >= bound, estimate.high < bound, why)


def not_testable(place, text, why):
    """A claim that needs equipment which this machine lacks."""
    return Claim(place, text, "–", (), lambda _: Verdict(Mark.NOT_TESTABLE, why))


def not_measured(place, text, why):
    """A claim that no bench measures yet."""
    return Claim(place, text, "–", (), lambda _: Verdict(Mark.NOT_MEASURED, why))


def all_within(rows, why):
    """All rows within their tolerances: reproduced; none: not reproduced."""
    inside = sum(row.is_within for row in rows)
    return decide(inside == len(rows), inside == 0, why)
