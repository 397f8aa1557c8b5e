"""OpenUVR: sections III to V, figures 4, 6, 10 and 11."""

from .. import estimate
from ..marks import Claim, Mark, Verdict, at_least, decide, not_measured, not_testable
from ..results import named, value
from . import quality, unity

# Figure 4, ms: visual latency of the evaluated platforms; "RPi" is a Raspberry Pi 4b as client.
FIGURE_4_MS = {
    "Moonlight, laptop": 26.5,
    "HWA-GamingAnywhere, laptop": 28.0,
    "Steam Link, own device": 35.0,
    "Moonlight, RPi": 36.0,
    "HWA-GamingAnywhere, RPi": 38.3,
    "GamingAnywhere, laptop": 52.0,
    "GamingAnywhere, RPi": 1200.0,
}
# The names under which `bench peers` would list these platforms; it does not measure them.
PRODUCTS = ("moonlight", "gaminganywhere", "hwa-gaminganywhere", "steam-link")
SICKNESS_MS = 20.0
# Figure 6, ms, of HWA-GamingAnywhere.
NETWORK_STACK_MS, ENCODING_MS, CLIENT_MS = 17.63, 13.94, 3.64
# Figure 10, ms.
OPENUVR_MS, HWA_GAMINGANYWHERE_MS = 14.32, 38.3
RATIO = 2.67
# Figure 11, ms.
TRANSCODING_MS, SHARING_MS, NETWORK_MS = 5.51, 4.71, 13.67 + 0.7
# Section V-A2: time that peers save compared with YUV over the router, with RGB and with YUV. Section IV-B1: airtime
# over the router as a multiple of that between peers.
PEERS_RGB_MS, PEERS_YUV_MS, AIRTIME_TIMES = 0.8, 1.6, 2.0
# A ratio that is lower than the paper's by a tenth still counts (a guess).
AIRTIME_LEAST = 0.9 * AIRTIME_TIMES
# Section V-D1.
SSIM_MEAN, SSIM_BEST, SSIM_WORST, SSIM_GOOD = 0.918, 0.961, 0.679, 0.9
SSIM_SECONDS, SSIM_MBPS, SSIM_HEIGHT = 600, 20, 1080

CONVENTIONAL = "conventional"
BURST = "+ burst"
RGB = "RGB, not converted"


def runs(ablation, configuration):
    """p50 of each run of a configuration, ms."""
    return [
        value(run, "latency_ms/p50") for run in ablation.get("runs", []) if run.get("configuration") == configuration
    ]


def step(run, *pairs):
    """The mean duration of adjacent steps of a run, ms; None if one was not measured."""
    total = 0.0
    for pair in pairs:
        found = next((s for s in run.get("steps", []) if (s.get("from"), s.get("to")) == pair), None)
        mean = value(found, "ms/mean")
        if mean is None:
            return None
        total += mean
    return total


def steps(ablation, configuration, *pairs):
    """The mean duration of adjacent steps in each run of a configuration, ms."""
    of = [step(run, *pairs) for run in ablation.get("runs", []) if run.get("configuration") == configuration]
    return [ms for ms in of if ms is not None]


def burst_rows(ablation):
    """The names of two cumulative rows: the last row with the bench's own pacing, and the burst row without it."""
    names = [row.get("name") for row in ablation.get("cumulative", [])]
    if BURST not in names or names.index(BURST) == 0:
        return None
    at = names.index(BURST)
    return names[at - 1], names[at]


def conventional_runs(ablation):
    """p50 of the conventional stream, ms, without the 5.56 ms batches that the bench's baseline waits for.

    GamingAnywhere has no such pacer, so these waits must not count in the comparison with the paper.
    """
    found = burst_rows(ablation)
    if found is None:
        return []
    paced, burst = (runs(ablation, name) for name in found)
    waited = estimate.difference(paced, burst)
    if waited is None:
        return []
    return [ms - max(waited.mean, 0.0) for ms in runs(ablation, CONVENTIONAL)]


def our_runs(ablation):
    last = ablation.get("cumulative", [])[-1:]
    return runs(ablation, last[0].get("name")) if last else []


def platforms(results):
    peers = results.first("bench peers")
    if peers is None:
        return None
    measured = [(way["name"], value(way, "direct/p50_ms")) for way in peers.get("ways", [])]
    others = [(name, estimate.of_runs(p50)) for name, p50 in measured if p50 and not name.startswith("openuvr")]
    if not others:
        return None
    text = ", ".join(f"{name} {found.text(1, 'ms')}" for name, found in others)
    products = [(name, found) for name, found in others if name in PRODUCTS]
    if not products:
        why = f"none of the paper's products was measured; other programs, without a radio: {text}"
        return Verdict(Mark.NOT_TESTABLE, why)
    fastest = min(products, key=lambda pair: pair[1].mean)[1]
    return at_least(fastest, SICKNESS_MS, text)


def breakdown(results):
    ablation = results.first("bench ablation")
    found = burst_rows(ablation.data) if ablation else None
    if found is None:
        return None
    network = steps(ablation.data, found[1], ("Encoded", "Recoverable"))
    encoding = steps(ablation.data, CONVENTIONAL, ("Converted", "FirstSlice"), ("FirstSlice", "Encoded"))
    client = steps(ablation.data, CONVENTIONAL, ("Recoverable", "Decoded"), ("Decoded", "Submitted"))
    over, under = estimate.difference(network, encoding), estimate.difference(encoding, client)
    if over is None or under is None:
        return None
    parts = [estimate.of(part) for part in (network, encoding, client)]
    why = (
        f"network stack {parts[0].text(1)} ms, encoding {parts[1].text(1)} ms, client {parts[2].text(1)} ms, "
        "on the loopback device, without the bench's own pacing"
    )
    orders = [at_least(over, 0.0, why), at_least(under, 0.0, why)]
    if any(order.mark is Mark.NOT_REPRODUCED for order in orders):
        return Verdict(Mark.NOT_REPRODUCED, why)
    return next((order for order in orders if order.mark is not Mark.REPRODUCED), orders[0])


def visual_latency(results):
    ablation = results.first("bench ablation")
    if ablation is None:
        return None
    ours, theirs = our_runs(ablation.data), conventional_runs(ablation.data)
    if not ours or not theirs:
        return None
    compared = estimate.ratio(theirs, ours)
    if compared is None:
        return Verdict(Mark.INCONCLUSIVE, "the wait for the bench's own pacer varies by more than the whole latency")
    low, times, high = compared
    latency, before = estimate.of(ours), estimate.of(theirs)
    why = f"{latency.text(1, 'ms')} against {before.text(1, 'ms')}: {times:.2f} times"
    if low is None or latency.half is None:
        return Verdict(Mark.INCONCLUSIVE, f"{why}; a single run has no confidence interval")
    why += f" ({low:.2f} to {high:.2f})"
    fast, slow = latency.high <= SICKNESS_MS, latency.low > SICKNESS_MS
    return decide(fast and low >= RATIO, slow or high < RATIO, why)


def _alternative(results, group, name, reference):
    """(unavailable, saving) of a row against a configuration of the ablation."""
    ablation = results.first("bench ablation")
    row = named(ablation.get(group, []), name) if ablation else None
    if row is None:
        return None
    if row.get("unavailable"):
        return row["unavailable"], None
    before = our_runs(ablation.data) if reference is None else runs(ablation.data, reference)
    return None, estimate.difference(before, runs(ablation.data, name))


def transcoding_saving(results):
    return _alternative(results, "alternatives", RGB, None)


def network_saving(results):
    return _alternative(results, "links", "raw Ethernet", "a call per datagram")


def sharing_saving(results):
    sync = results.first("bench sync")
    rows = sync.get("ways", []) if sync else []
    captured, submitted = named(rows, "captured"), named(rows, "submitted")
    if not captured or not submitted:
        return None
    runs_ms = [estimate.runs_of(row.get("p50_ms")) for row in (captured, submitted)]
    return None, estimate.difference(*runs_ms)


def saves(of, paper_ms, what):
    """Judges a saving. It counts as reproduced from half of the paper's saving on, because the machines differ."""

    def judge(results):
        found = of(results)
        if found is None:
            return None
        unavailable, saving = found
        if unavailable:
            return Verdict(Mark.NOT_TESTABLE, f"the configuration did not run: {unavailable}")
        if saving is None:
            return None
        return at_least(saving, paper_ms / 2, f"{what} saves {saving.text(2, 'ms')}")

    return judge


def _topology(results):
    """The comparison under the paper's conditions, by row names; and the reason if the comparison decides nothing."""
    found = (result for result in results.of("lab wifi") if result.get("topology") and not result.get("changes"))
    result = next(found, None)
    if result is None:
        return None, None
    rows = {row["name"]: row for row in result.get("topology/rows", [])}
    found = {name: estimate.Estimate(row["mean"], row.get("ci95")) for name, row in rows.items()}
    return found, unity.too_little(result)


def peers_saving(name, paper_ms, chosen=""):
    """Judges a saving in the model of Wi-Fi; `chosen` states assumptions that are ours, for the verdict's text."""

    def judge(results):
        found, few = _topology(results)
        if found is None or name not in found:
            return None
        why = f"simulated: peer-to-peer saves {found[name].text(2, 'ms')} (paper: {paper_ms:g} ms){chosen}"
        if few:
            return Verdict(Mark.INCONCLUSIVE, f"{why}; {few}")
        return at_least(found[name], paper_ms / 2, why)

    return judge


def airtime_halved(results):
    found, few = _topology(results)
    if found is None or "airtime_times" not in found:
        return None
    times = found["airtime_times"].text(2)
    why = f"simulated: a stream over the router takes {times} times the airtime of peer-to-peer. Chosen: the host "
    why += "sends to the router with two spatial streams like the paper's card, and the device receives with one"
    if few:
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {few}")
    return at_least(found["airtime_times"], AIRTIME_LEAST, why)


def together(results):
    found = [of(results) for of in (transcoding_saving, sharing_saving, network_saving)]
    if any(one is None or one[1] is None for one in found):
        return None
    saving = estimate.total(one[1] for one in found)
    why = f"the paper's three optimisations save {saving.text(1, 'ms')} together"
    return at_least(saving, (TRANSCODING_MS + SHARING_MS + NETWORK_MS) / 2, why)


def synchronous(results):
    sync = results.first("bench sync")
    rows = sync.get("ways", []) if sync else []
    free, waiting = named(rows, "submitted"), named(rows, "lock-step")
    if not free or not waiting:
        return None
    before, after = (estimate.runs_of(row.get("p50_ms")) for row in (free, waiting))
    change = estimate.difference(after, before)
    if change is None:
        return None
    bound = 0.1 * sum(before) / len(before)
    psnr = [value(row, "psnr_db/p50") for row in (free, waiting)]
    picture = psnr[1] - psnr[0] if None not in psnr else None
    why = f"waiting changes the latency by {change.text(2, 'ms')}"
    why += f" and the picture by {picture:+.1f} dB" if picture is not None else "; the picture was not compared"
    if change.half is None or picture is None:
        return Verdict(Mark.INCONCLUSIVE, why)
    same_picture = abs(picture) <= 0.5
    inside = -bound <= change.low and change.high <= bound
    outside = change.low > bound or change.high < -bound
    return decide(inside and same_picture, outside or not same_picture, why)


def similarity(results):
    for result in results.of("bench quality"):
        batches = quality.best_batches(result)
        if not batches:
            continue
        mean = estimate.of(batches)
        seconds, mbps, height = (result.get(key, 0) for key in ("seconds", "target_mbps", "height_pixels"))
        why = f"mean SSIM {mean.text(3)}, worst batch {min(batches):.3f}, best {max(batches):.3f}"
        judged = at_least(mean, SSIM_GOOD, why)
        if seconds < SSIM_SECONDS or mbps < SSIM_MBPS or height < SSIM_HEIGHT:
            less = f"{seconds:g} s at {mbps:g} Mb/s and {height} lines; the paper has 10 min at 20 Mb/s and 1080 lines"
            return Verdict(Mark.INCONCLUSIVE, f"{why}; {less}")
        return judged
    return None


HALF = "the 95 % interval of the saving lies above half of the paper's"
TOPOLOGY = ("lab wifi --topology",)

CLAIMS = (
    Claim(
        "figure 4",
        "No existing platform shows a picture within 20 ms: " + ", ".join(f"{k} {v:g}" for k, v in FIGURE_4_MS.items()),
        "the fastest of the paper's products takes 20 ms or more",
        ("bench peers",),
        platforms,
    ),
    Claim(
        "figure 6",
        f"The host's network stack takes most time ({NETWORK_STACK_MS} ms), encoding is second ({ENCODING_MS} ms), and "
        f"the client needs {CLIENT_MS} ms.",
        "network takes longer than encoding, and encoding longer than the client, each with its 95 % interval",
        ("bench ablation",),
        breakdown,
    ),
    Claim(
        "figure 10",
        f"Visual latency is {OPENUVR_MS} ms, below 20 ms, and {RATIO} times better than HWA-GamingAnywhere on a "
        f"Raspberry Pi ({HWA_GAMINGANYWHERE_MS} ms); the next best in the figure has 35 ms (2.4 times better).",
        f"below 20 ms, and the conventional stream without its pacer takes at least {RATIO} times as long",
        ("bench ablation",),
        visual_latency,
    ),
    Claim(
        "figure 11, transcoding",
        f"Encoding RGB without colour conversion saves {TRANSCODING_MS} ms.",
        HALF,
        ("bench ablation",),
        saves(transcoding_saving, TRANSCODING_MS, "RGB without conversion, encoded on the processor,"),
    ),
    Claim(
        "figure 11, data sharing",
        f"Sharing data with the application saves {SHARING_MS} ms.",
        HALF,
        ("bench sync",),
        saves(
            sharing_saving, SHARING_MS, "submitting within the process (by read-back, without a graphics card)"
        ),
    ),
    Claim(
        "figure 11, direct network I/O",
        f"Direct network I/O saves {NETWORK_MS:.2f} ms, 13.67 of them on the host.",
        HALF,
        ("bench ablation",),
        saves(network_saving, NETWORK_MS, "raw Ethernet instead of a system call per datagram"),
    ),
    Claim(
        "figure 11, topology",
        f"Peer-to-peer Wi-Fi saves {PEERS_YUV_MS} ms against an access point, both with YUV.",
        f"in the model of Wi-Fi, {HALF}",
        TOPOLOGY,
        peers_saving("saved_yuv_ms", PEERS_YUV_MS),
        is_timed=False,
    ),
    Claim(
        "figure 11, topology and RGB",
        f"RGB by peer-to-peer Wi-Fi still saves {PEERS_RGB_MS} ms against YUV over an access point.",
        f"in the model of Wi-Fi, {HALF}",
        TOPOLOGY,
        peers_saving("saved_rgb_ms", PEERS_RGB_MS, ". Chosen: RGB has twice the data, which the paper calls possible"),
        is_timed=False,
    ),
    Claim(
        "section IV-B1",
        "Peer-to-peer Wi-Fi halves the congestion of the channel: no datagram takes it twice.",
        f"in the model of Wi-Fi, the airtime over the access point is at least {AIRTIME_LEAST:g} times that of "
        "peer-to-peer",
        TOPOLOGY,
        airtime_halved,
        is_timed=False,
    ),
    not_measured(
        "figure 11, control protocol",
        "Feedback control saves 0.1 ms, with far better picture quality.",
        "no bench switches the feedback off",
    ),
    Claim(
        "figure 11, all",
        "All optimisations bring the latency from 38.3 ms to less than a frame at 60 frames/s.",
        "the paper's own three optimisations together save at least half of their saving in the paper "
        f"({TRANSCODING_MS + SHARING_MS + NETWORK_MS:.1f} ms)",
        ("bench ablation", "bench sync"),
        together,
    ),
    Claim(
        "section IV-B3",
        "At a given bitrate a longer GOP improves the picture; with loss, damage stays longer.",
        "the longest GOP is better than the shortest without loss and worse with 1 % loss, by 95 % intervals",
        ("bench quality",),
        quality.gop,
    ),
    not_testable(
        "section V-B",
        "A battery of 5,400 mAh powers client and headset for 6 h 20 min.",
        "this needs a battery or a power meter",
    ),
    not_testable(
        "section V-C",
        "A GTX 1060 takes 2 ms longer than an RTX 2080, and the latency stays below 20 ms.",
        "this needs two graphics cards",
    ),
    Claim(
        "section V-D1",
        f"Mean SSIM {SSIM_MEAN}, above {SSIM_GOOD}; best batch {SSIM_BEST}, worst {SSIM_WORST}.",
        f"the 95 % interval of the mean over batches lies above {SSIM_GOOD}, under the paper's conditions",
        ("bench quality",),
        similarity,
    ),
    not_testable(
        "section V-D2", "100 people see no difference to a wired display (51 to 49).", "this needs test persons"
    ),
    Claim(
        "section V-E",
        "An application that waits for the host has no significant change of latency or quality.",
        "the 95 % interval of the latency's change lies within a tenth of the latency, and the picture's change within "
        "0.5 dB",
        ("bench sync",),
        synchronous,
    ),
)
