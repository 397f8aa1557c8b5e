"""GamingAnywhere: sections 6.2 to 6.4, figures 7 to 11."""

from .. import estimate
from ..marks import Check, Claim, Mark, Tolerance, Verdict, doubted, judged, not_testable
from ..results import value
from . import openuvr, quality

# Section 6.2, ms: the servers' processing delays, and the bound of responsiveness.
SERVER_MS = {"GamingAnywhere": 34.0, "OnLive": 191.0, "StreamMyGame": 365.0}
RESPONSIVE_MS = 100.0
# The largest output delay of all clients.
OUTPUT_MS = 31.0
# Minimum number of key presses for a meaningful mean (a guess).
ENOUGH_PRESSES = 10
# Minimum share of the key presses that must have an effect (a guess). Presses without an effect are missing from the
# mean, but they would be the slowest ones.
ENOUGH_SEEN = 0.9
# Figure 8, ms: the largest mean durations of encoding and of rendering, two of the seven components.
ENCODING_MS, RENDERING_MS = 16.0, 7.0
# Figure 9(d).
BITRATE_MBPS = 3.0
# Section 6.4: the ranges of the network conditions.
DELAY_MS, LOSS_PERCENT, BANDWIDTH_MBPS = (0, 600), (0, 10), (1, 6)

# The bounds of all claims.
RESPONSIVE = Tolerance(
    f"the mean reaction of each case takes less than {RESPONSIVE_MS:g} ms, network and display included",
    RESPONSIVE_MS,
    "the paper cites this bound for players of shooters",
)
LARGEST = Tolerance(
    f"encoding takes at most {ENCODING_MS:g} ms and longer than each other component of the server; rendering takes at "
    f"most {RENDERING_MS:g} ms and longer than each other component of the client",
    0.0,
    "these are the paper's own maxima; the claim is an order of durations, so any difference above its error counts",
)
CONFIGURED = Tolerance(
    "the mean downlink rate of each content is at most 1 % above the bitrate, headers included",
    1.01,
    "a measured second may contain half a frame too much, and half a frame is 1 % of a second at 50 frames/s",
)
SAME_QUALITY = Tolerance(
    "from the smallest to the largest delay, PSNR changes by less than 1 dB, and SSIM by less than 0.01",
    quality.MATTERS,
    "smaller changes are invisible (a guess)",
)
LOWER_QUALITY = Tolerance(
    "from the smallest to the largest loss, PSNR falls by more than 1 dB, and SSIM by more than 0.01",
    quality.MATTERS,
    "smaller changes are invisible (a guess)",
)
SUDDEN_DROP = Tolerance(
    "at a constant bitrate, PSNR is more than 6 dB and SSIM more than 0.1 lower at 1 Mb/s than without a limit",
    quality.DROP,
    "the paper's text has no numbers for its curves (a guess)",
)


def cases(results):
    for result in results.of("bench latency"):
        yield from result.get("cases", [])


def responds(results, bound):
    all_cases = [
        (value(case, "setting/name"), value(case, "stream/reaction_ms", []), value(case, "setting/presses", 0))
        for case in cases(results)
    ]
    measured = [(name, estimate.of(reactions)) for name, reactions, _ in all_cases if reactions]
    if not measured:
        return None
    why = "key press to effect, mean: " + ", ".join(f"{name} {found.text(1, 'ms')}" for name, found in measured)
    if any(found.runs < ENOUGH_PRESSES for _, found in measured):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; in a case, fewer than {ENOUGH_PRESSES} key presses had an effect")
    if any(len(reactions) < ENOUGH_SEEN * presses for _, reactions, presses in all_cases):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; in a case, more than a tenth of the key presses had no effect")
    return judged((Check(found, most=bound) for _, found in measured), why)


# The paper's components, each with the adjacent steps of OpenUVR that contain it. Packetization and frame buffering are
# one step, because slices are sent while later slices are encoded. This common step counts for the client.
SERVER = {
    "memory copy": (("drawn", "Captured"),),
    "conversion": (("Captured", "Converted"),),
    "encoding": (("Converted", "FirstSlice"), ("FirstSlice", "Encoded")),
}
CLIENT = {
    "packetization and buffering": (("Encoded", "Recoverable"),),
    "decoding": (("Recoverable", "Decoded"),),
    "rendering": (("Decoded", "Submitted"), ("Submitted", "visible")),
}


def components(ablation):
    """The mean of each component in each run of OpenUVR's own configuration, ms; empty without data."""
    name = openuvr.ours(ablation.data)
    found = {part: openuvr.steps(ablation.data, name, *pairs) for part, pairs in (SERVER | CLIENT).items()}
    return found if all(found.values()) else {}


def decomposition(results, bound):
    ablation = openuvr.ablation_of(results)
    found = components(ablation) if ablation else {}
    if not found:
        return None
    why = ", ".join(f"{part} {estimate.of(ms).text(2)}" for part, ms in found.items()) + " ms"
    checks = []
    for group, largest, most in ((SERVER, "encoding", ENCODING_MS), (CLIENT, "rendering", RENDERING_MS)):
        checks.append(Check(estimate.of(found[largest]), most=most))
        others = [part for part in group if part != largest]
        checks += [Check(estimate.difference(found[largest], found[part]), bound) for part in others]
    return doubted(judged(checks, why), openuvr.incomplete(ablation.data, openuvr.ours(ablation.data)))


def downlinks(results):
    """(name, Mb/s of each second, configured Mb/s) of all streams on perfect links. Older files have only the mean."""
    for result in results.of("bench quality"):
        for figure in result.get("figures", []):
            if figure.get("measure") == "bit rate":
                down = next((s for s in figure["series"] if s["name"] == "down"), {"points": []})
                for point in down["points"]:
                    yield point["label"], point.get("batch_means") or [point["mean"]], result.get("target_mbps")


def network_load(results, bound):
    loads = [(name, estimate.of(mbps), limit) for name, mbps, limit in downlinks(results) if limit]
    loads = [(name, found, limit) for name, found, limit in loads if found]
    text = ", ".join(f"{name} {found.text(2)} of {limit:g} Mb/s" for name, found, limit in loads)
    return judged((Check(found, most=limit * bound) for _, found, limit in loads), f"with all headers: {text}")


CLAIMS = (
    not_testable(
        "section 3, portability",
        "The server runs on Windows and Linux, the client on Windows, Linux and OS X, and the client can be ported to "
        "phones.",
        "OpenUVR's host and client run only on Linux, and other systems and phones play in a browser or with "
        "Moonlight; the test needs ports to other systems, and machines with Windows, macOS, Android and iOS",
    ),
    Claim(
        "figure 7, response",
        f"Without the network, GamingAnywhere responds within {RESPONSIVE_MS:g} ms.",
        RESPONSIVE,
        ("bench latency",),
        responds,
        chosen="each key press counts as a run, because the presses have random phases relative to the frames",
    ),
    not_testable(
        "figure 7, others",
        "The servers of OnLive and StreamMyGame take up to {OnLive:g} and {StreamMyGame:g} ms, and that of "
        "GamingAnywhere {GamingAnywhere:g} ms. ".format(**SERVER_MS)
        + f"All clients take at most {OUTPUT_MS:g} ms.",
        "OnLive and StreamMyGame are discontinued; bench peers measures the whole path of GamingAnywhere, not its "
        "server and client separately",
    ),
    Claim(
        "figure 8",
        f"Of seven delay components, encoding is the largest of the server (at most {ENCODING_MS:g} ms), and "
        f"rendering is the largest of the client (at most {RENDERING_MS:g} ms).",
        LARGEST,
        ("bench ablation",),
        decomposition,
        chosen="packetization and frame buffering are one component; rendering includes the display's own copy",
    ),
    Claim(
        "figure 9(d)",
        f"The downlink carries no more than the configured bitrate, {BITRATE_MBPS:g} Mb/s.",
        CONFIGURED,
        ("bench quality",),
        network_load,
        chosen="each second of one run counts as a run",
        is_timed=False,
    ),
    not_testable(
        "figure 9, others",
        "OnLive uses 3 to 5 Mb/s, and StreamMyGame 10 to 13 Mb/s. Both send more upstream than GamingAnywhere (panels "
        "(a) to (c), without numbers in the text).",
        "both services are discontinued; bench quality plots all six panels for OpenUVR's stream",
    ),
    Claim(
        "figures 10(a), 11(a)",
        f"A network delay of {DELAY_MS[0]} to {DELAY_MS[1]} ms hardly affects quality.",
        SAME_QUALITY,
        ("bench quality",),
        quality.stays("delay"),
        chosen=quality.BATCHES,
    ),
    Claim(
        "figures 10(b), 11(b)",
        f"A loss of {LOSS_PERCENT[0]} to {LOSS_PERCENT[1]} % lowers quality.",
        LOWER_QUALITY,
        ("bench quality",),
        quality.falls("loss"),
        chosen=quality.BATCHES,
    ),
    Claim(
        "figures 10(c), 11(c)",
        f"Quality drops suddenly where the bandwidth ({BANDWIDTH_MBPS[0]} to {BANDWIDTH_MBPS[1]} Mb/s) is below the "
        "bitrate, 3 Mb/s.",
        SUDDEN_DROP,
        ("bench quality",),
        quality.bandwidth,
        chosen=quality.BATCHES,
    ),
)
