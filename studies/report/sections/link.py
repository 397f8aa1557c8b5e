"""`bench link`: a stream over bad links."""

from .. import plots
from ..blocks import ABSENT, Section, number
from ..estimate import Estimate
from ..results import value


def section(results):
    cases = [case for result in results.of("bench link") for case in result.get("cases", [])]
    if not cases:
        return None
    made = Section("On a bad link")
    names = [f"{case['case']}, {case['recovery']}" if case.get("recovery") else case["case"] for case in cases]
    fps = [(name, Estimate(case["complete_per_second"]), None) for name, case in zip(names, cases, strict=True)]
    made.plot("link frames", plots.bars("Complete frames", "complete frames per second", fps))
    gaps = [(name, Estimate(case["longest_gap_ms"]), None) for name, case in zip(names, cases, strict=True)]
    made.plot("link gaps", plots.bars("Longest time without a complete frame", "longest gap, ms", gaps))
    paths = (
        "complete_per_second",
        "longest_gap_ms",
        "latency_ms/p50",
        "latency_ms/p99",
        "input_p95_ms",
        "wire_mbps",
        "narrow/settled_p99_ms",
        "narrow/back_after_s",
        "link_late_ms",
    )
    heads = [
        "case",
        "complete frames/s",
        "longest gap, ms",
        "captured to submitted p50, ms",
        "p99, ms",
        "input p95, ms",
        "wire, Mb/s",
        "narrow: settled p99, ms",
        "rate back after, s",
        "emulated link's own lateness p99, ms",
        "frames by outcome",
    ]
    made.table(
        heads,
        (
            [
                name,
                *(number(case, path, 1) for path in paths),
                ", ".join(f"{count} {outcome}" for outcome, count in value(case, "outcomes", {}).items()) or ABSENT,
            ]
            for name, case in zip(names, cases, strict=True)
        ),
    )
    made.text("`openuvr bench link --help` describes the cases.")
    return made
