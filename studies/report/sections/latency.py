"""`bench latency`: drawn to visible, with its targets."""

from .. import plots
from ..blocks import Section, number, target
from ..papers.gaminganywhere import ENCODING_MS, RENDERING_MS
from ..papers.openuvr import HWA_GAMINGANYWHERE_MS, OPENUVR_MS
from ..results import QUIET_CORES, value

# What a frame waits for, from drawn to visible; each begins where the one before ends.
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
    """Latencies of the complete frames, ms: from the CSV file, or of a result without one from the JSON file."""
    table = result.table(result.get("samples_csv", ""))
    if not table.empty:
        mine = table[(table["case"] == value(case, "setting/name")) & (table["outcome"] == "whole")]
        return sorted(mine["latency_ms"])
    return sorted(value(case, "stream/latencies_ms", []))


def cumulative(values):
    """(value, percent of the values not above it), up to 100 %."""
    values = sorted(values)
    every = max(1, len(values) // 400)
    points = [(one, 100 * (place + 1) / len(values)) for place, one in enumerate(values)]
    return points[::every] + (points[-1:] if points else [])


def withheld(case):
    """Why times are not judged: a busy machine, or missing frames."""
    if max(value(case, "stream/other_cores", 0), value(case, "floor/other_cores", 0)) > QUIET_CORES:
        return "busy machine"
    share = value(case, "whole_of_due")
    return "frames are missing" if share is None or share < 0.99 else None


TARGETS = (
    ("complete frames, of those due", "%", "whole", "whole_of_due", 100, True),
    ("drawn to visible, p50", "ms", "p50_ms", "stream/latency_ms/p50", 1, False),
    ("drawn to visible, p99", "ms", "p99_ms", "stream/latency_ms/p99", 1, False),
    ("reaction beyond the application's", "ms", "reaction_ms", "reaction_beyond_ms", 1, False),
    ("(end to end - floor) / serial codec", "", "ratio", "pipeline_ratio", 1, False),
    ("cores of host and client", "", "cores", "cores", 1, False),
    ("on the wire", "Mb/s", "wire_mbps", "stream/wire_mbps", 1, False),
    ("luma PSNR, median", "dB", "psnr_db", "psnr_p50_db", 1, True),
)


def targets(case):
    for what, unit, name, path, scale, at_least in TARGETS:
        bound = value(case, f"setting/targets/{name}/pass")
        if bound is None:
            continue
        measured = value(case, path)
        judged = target(measured, bound, at_least, withheld(case))
        sign = "≥" if at_least else "≤"
        yield [
            value(case, "setting/name"), what, number({"v": measured}, "v", 2, scale), f"{sign} {bound * scale:g} {unit}",
            judged,
        ]  # fmt: skip


def row(case):
    at = value(case, "setting", {})
    return [
        f"{at.get('name')} ({at.get('size')} at {at.get('bitrate')})",
        number(case, "floor/latency_ms/p50"),
        number(case, "stream/latency_ms/p50"),
        number(case, "stream/latency_ms/p99"),
        number(case, "stream/latency_ms/max"),
        number(case, "stream/latency_ms/count", 0),
        number(case, "codec/serial/p50"),
        number(case, "codec/pipelined/p50"),
        number(case, "stream/wire_mbps"),
        value(case, "stream/link") or "–",
    ]


HEADS = [
    "case", "floor p50, ms", "p50, ms", "p99, ms", "max, ms", "complete frames", "serial codec p50, ms",
    "pipelined codec p50, ms", "wire, Mb/s", "link",
]  # fmt: skip


def section(results):
    all_cases = cases(results)
    if not all_cases:
        return None
    made = Section("Drawn to visible")
    made.table(HEADS, (row(case) for _, case in all_cases))
    made.table(["case", "target", "measured", "bound", ""], (line for _, case in all_cases for line in targets(case)), "Targets")
    curves = [(value(case, "setting/name"), cumulative(samples(result, case))) for result, case in all_cases]
    references = [
        (OPENUVR_MS, f"OpenUVR's paper, mean: {OPENUVR_MS} ms"),
        (HWA_GAMINGANYWHERE_MS, f"HWA-GamingAnywhere there: {HWA_GAMINGANYWHERE_MS} ms"),
    ]
    made.plot(
        "latency distribution", plots.shares("Latency of complete frames", "drawn to visible, ms", curves, references, log=True)
    )
    bars = [(value(case, "setting/name"), stages(value(case, "stream/steps", []))) for _, case in all_cases]
    made.plot("latency stages", plots.stacked("Where the time goes: mean of each stage", "mean time, ms", bars))
    made.text(
        f"GamingAnywhere's figure 8 has at most {ENCODING_MS:g} ms of encoding and {RENDERING_MS:g} ms of rendering. "
        "Slices are sent while later ones are encoded, so that encoding and network overlap."
    )
    return made
