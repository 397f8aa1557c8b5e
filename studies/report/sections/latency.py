"""`bench latency`: drawn to visible, with its targets."""

from .. import plots
from ..blocks import Section, goal, number, percent
from ..papers.gaminganywhere import ENCODING_MS, RENDERING_MS
from ..papers.openuvr import HWA_GAMINGANYWHERE_MS, OPENUVR_MS
from ..results import value

# The stages of a frame from drawn to visible. Each begins where the previous one ends.
STAGES = (
    ("until captured", (("drawn", "Captured"),)),
    ("conversion", (("Captured", "Converted"),)),
    ("encoding", (("Converted", "FirstSlice"), ("FirstSlice", "Encoded"))),
    ("network", (("Encoded", "Recoverable"),)),
    ("decoding", (("Recoverable", "Decoded"),)),
    ("to the display", (("Decoded", "Submitted"),)),
    ("display", (("Submitted", "visible"),)),
)


def stages(steps):
    """Mean duration of each stage, ms; empty if one was not measured. Means add up, medians do not."""
    known = {(step["from"], step["to"]): value(step, "ms/mean") for step in steps}
    parts = [(name, [known.get(pair) for pair in pairs]) for name, pairs in STAGES]
    if any(mean is None for _, means in parts for mean in means):
        return []
    return [(name, sum(means)) for name, means in parts]


def cases(results):
    return [(result, case) for result in results.of("bench latency") for case in result.get("cases", [])]


def samples(result, case):
    """Latencies of the complete frames, ms, from the CSV file."""
    table = result.table(result.get("samples_csv", ""))
    if not table.empty:
        mine = (table["case"] == value(case, "setting/name")) & (table["part"] == "stream")
        return sorted(table[mine & (table["outcome"] == "complete")]["latency_ms"])
    return []


def cumulative(values):
    """(value, percent of the values not above it), up to 100 %."""
    values = sorted(values)
    every = max(1, len(values) // 400)
    points = [(one, 100 * (place + 1) / len(values)) for place, one in enumerate(values)]
    return points[::every] + (points[-1:] if points else [])


def row(case):
    at = value(case, "setting", {})
    return [
        f"{at.get('name')} ({at.get('size')} at {at.get('bitrate')})",
        number(case, "floor/latency_ms/p50"),
        number(case, "stream/latency_ms/p50"),
        number(case, "stream/latency_ms/p99"),
        number(case, "stream/latency_ms/max"),
        number(case, "stream/latency_ms/count", 0),
        percent(case, "complete_of_due"),
        number(case, "codec/serial/p50"),
        number(case, "codec/pipelined/p50"),
        number(case, "pipeline_ratio"),
        number(case, "stream/wire_mbps"),
        value(case, "stream/link") or "–",
    ]


HEADS = [
    "case",
    "floor p50, ms",
    "p50, ms",
    "p99, ms",
    "max, ms",
    "complete frames",
    "share of due frames",
    "serial codec p50, ms",
    "pipelined codec p50, ms",
    "(end − floor) / serial",
    "wire, Mb/s",
    "link",
]


def section(results):
    all_cases = cases(results)
    if not all_cases:
        return None
    made = Section("Drawn to visible")
    made.table(HEADS, (row(case) for _, case in all_cases))
    made.table(
        ["case", "target", "measured", "bound", ""],
        (
            [value(case, "setting/name"), *goal(verdict, result)]
            for result, case in all_cases
            for verdict in case.get("verdicts", [])
        ),
        "Targets",
    )
    curves = [(value(case, "setting/name"), cumulative(samples(result, case))) for result, case in all_cases]
    references = [
        (OPENUVR_MS, f"OpenUVR's paper, mean: {OPENUVR_MS} ms"),
        (HWA_GAMINGANYWHERE_MS, f"OpenUVR's paper, HWA-GamingAnywhere: {HWA_GAMINGANYWHERE_MS} ms"),
    ]
    made.plot(
        "latency distribution",
        plots.shares("Latency of complete frames", "drawn to visible, ms", curves, references, log=True),
    )
    bars = [(value(case, "setting/name"), stages(value(case, "stream/steps", []))) for _, case in all_cases]
    made.plot("latency stages", plots.stacked("Where the time goes: mean of each stage", "mean time, ms", bars))
    made.text(
        f"GamingAnywhere's figure 8 has at most {ENCODING_MS:g} ms of encoding and {RENDERING_MS:g} ms of rendering. "
        "Slices are sent while later ones are encoded, so encoding and network overlap."
    )
    return made
