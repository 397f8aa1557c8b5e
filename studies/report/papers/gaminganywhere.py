"""GamingAnywhere: sections 6.2 to 6.4, figures 7 to 11."""

from ..marks import Claim, Mark, Verdict, decide, not_testable
from ..results import value
from . import quality

# Section 6.2, ms: the servers' processing delays, and the bound of responsiveness.
SERVER_MS = {"GamingAnywhere": 34.0, "OnLive": 191.0, "StreamMyGame": 365.0}
RESPONSIVE_MS = 100.0
# With fewer presses, a percentile is meaningless (a guess).
ENOUGH_PRESSES = 10
# Figure 8, ms: the largest means of the seven components.
ENCODING_MS, RENDERING_MS = 16.0, 7.0
# Figure 9(d).
BITRATE_MBPS = 3.0
# Section 6.4: the ranges of the network conditions.
DELAY_MS, LOSS_PERCENT, BANDWIDTH_MBPS = (0, 600), (0, 10), (1, 6)


def cases(results):
    for result in results.of("bench latency"):
        yield from result.get("cases", [])


def _median(values):
    values = sorted(values)
    return values[(len(values) - 1) // 2] if values else None


def _at_share(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def responds(results):
    all_cases = [(value(case, "setting/name"), value(case, "stream/reaction_ms", [])) for case in cases(results)]
    all_cases = [(name, reactions) for name, reactions in all_cases if reactions]
    if not all_cases:
        return None
    measured = [(name, reactions) for name, reactions in all_cases if len(reactions) >= ENOUGH_PRESSES]
    if len(measured) < len(all_cases):
        return Verdict(Mark.INCONCLUSIVE, f"in a case, fewer than {ENOUGH_PRESSES} key presses had an effect")
    why = "key press to effect, median and 95th percentile: " + ", ".join(
        f"{name} {_median(ms):.1f} and {_at_share(ms, 0.95):.1f} ms" for name, ms in measured
    )
    holds = all(_at_share(ms, 0.95) < RESPONSIVE_MS for _, ms in measured)
    fails = any(_median(ms) >= RESPONSIVE_MS for _, ms in measured)
    return decide(holds, fails, why)


COMPONENTS = (
    ("encoding", (("Converted", "FirstSlice"), ("FirstSlice", "Encoded")), ENCODING_MS),
    ("rendering", (("Decoded", "Submitted"), ("Submitted", "visible")), RENDERING_MS),
)


def components(results):
    """Means of the two largest components. A single run reproduces them only if the p99 of their parts fits, too."""
    text, holds, fails = [], True, False
    for case in cases(results):
        steps = {(s["from"], s["to"]): s["ms"] for s in value(case, "stream/steps", [])}
        for name, pairs, bound in COMPONENTS:
            parts = [steps.get(pair) for pair in pairs]
            if any(part is None or part.get("mean") is None for part in parts):
                return None
            mean, late = (sum(part[key] for part in parts) for key in ("mean", "p99"))
            text.append(f"{value(case, 'setting/name')}: {name} {mean:.1f} ms (p99 {late:.1f})")
            holds &= late <= bound
            fails |= sum(part["p50"] for part in parts) > bound
    return decide(holds, fails, ", ".join(text)) if text else None


def downlinks(results):
    """(name, Mb/s, configured Mb/s) of all measured streams on perfect links."""
    for result in results.of("bench quality"):
        for figure in result.get("figures", []):
            if figure.get("measure") == "bit rate":
                down = next((s for s in figure["series"] if s["name"] == "down"), {"points": []})
                for point in down["points"]:
                    yield point["label"], point["mean"], result.get("target_mbps")
    for case in cases(results):
        rate = value(case, "setting/bitrate", "")
        if rate.endswith("M"):
            yield value(case, "setting/name"), value(case, "stream/wire_mbps"), float(rate[:-1])


def network_load(results):
    loads = [(name, mbps, limit) for name, mbps, limit in downlinks(results) if mbps is not None and limit]
    if not loads:
        return None
    why = "with all headers: " + ", ".join(f"{name} {mbps:.2f} of {limit:g} Mb/s" for name, mbps, limit in loads)
    above = [name for name, mbps, limit in loads if mbps > limit * 1.01]
    return Verdict(Mark.NOT_REPRODUCED if above else Mark.REPRODUCED, why)


CLAIMS = (
    Claim(
        "figure 7, response",
        f"Without the network, GamingAnywhere responds within {RESPONSIVE_MS:g} ms.",
        f"95 % of the reactions take less than {RESPONSIVE_MS:g} ms, network and display included",
        ("bench latency",),
        responds,
    ),
    not_testable(
        "figure 7, others",
        "The servers of OnLive and StreamMyGame take {OnLive:g} and {StreamMyGame:g} ms, GamingAnywhere's "
        "{GamingAnywhere:g} ms.".format(**SERVER_MS),
        "both services have ended",
    ),
    Claim(
        "figure 8",
        f"Of seven delay components, encoding is the largest of the server (at most {ENCODING_MS:g} ms), and "
        f"rendering is the largest of the client (at most {RENDERING_MS:g} ms).",
        "99 % of the frames are within these bounds",
        ("bench latency",),
        components,
    ),
    Claim(
        "figure 9(d)",
        f"The downlink carries no more than the configured bitrate, {BITRATE_MBPS:g} Mb/s.",
        "no stream of any bench is more than 1 % above its bitrate, headers included",
        ("bench quality", "bench latency"),
        network_load,
        is_timed=False,
    ),
    not_testable(
        "figure 9, others",
        "OnLive uses 3 to 5 Mb/s, StreamMyGame 10 to 13; both use more uplink than GamingAnywhere.",
        "both services have ended",
    ),
    Claim(
        "figures 10(a), 11(a)",
        f"Network delay of {DELAY_MS[0]} to {DELAY_MS[1]} ms hardly affects quality.",
        "the 95 % intervals of the changes lie within ±1 dB (PSNR) and ±0.01 (SSIM)",
        ("bench quality",),
        quality.stays("delay"),
    ),
    Claim(
        "figures 10(b), 11(b)",
        f"Loss of {LOSS_PERCENT[0]} to {LOSS_PERCENT[1]} % lowers quality.",
        "the 95 % intervals of the changes lie below -1 dB (PSNR) and -0.01 (SSIM)",
        ("bench quality",),
        quality.falls("loss"),
    ),
    Claim(
        "figures 10(c), 11(c)",
        f"Quality drops suddenly where the bandwidth ({BANDWIDTH_MBPS[0]} to {BANDWIDTH_MBPS[1]} Mb/s) is below the "
        "bitrate, 3 Mb/s.",
        "at a constant rate, 1 Mb/s is worse than no limit by more than 6 dB (PSNR) and 0.1 (SSIM)",
        ("bench quality",),
        quality.bandwidth,
    ),
)
