"""Unity Render Streaming over Wi-Fi 6 (Casasnovas et al.): its captures (sections 5 to 8.1) and simulations (8.2)."""

from dataclasses import dataclass, replace

from .. import estimate
from ..marks import Check, Claim, Mark, Tolerance, Verdict, judged, not_testable
from ..results import named, value

# Table 3, Alteration Hunting at 90 frames/s. (direction, stream) -> bytes on Ethernet, ms between packets, Mb/s.
TABLE_3 = {
    ("down", "STUN"): (122.0, 1287.42, 0.0008),
    ("down", "RTP audio"): (83.0, 20.0, 0.033),
    ("down", "RTP video"): (1242.16, 0.19, 53.45),
    ("down", "DTLS"): (107.01, 8.94, 0.096),
    ("down", "other UDP"): (112.0, 8.26, 0.11),
    ("up", "STUN"): (124.0, 1287.48, 0.0008),
    ("up", "RTCP"): (434.62, 67.27, 0.052),
    ("up", "DTLS"): (174.97, 4.90, 0.31),
    ("up", "other UDP"): (147.64, 443.75, 0.0026),
}
TABLE_3_RATE = 90
# The quantities of each stream in table 3, with their units.
QUANTITIES = (("bytes", ""), ("interval", "ms"), ("bitrate", "Mb/s"))
# For each frame rate: kB and batches of a frame (6.2, 6.3), percentage of idle 5.56 ms slots (fig. 13), jitter and
# assembly in ms (fig. 15), and number of packets that arrive at once (fig. 18).
RATES = {
    30: {"frame_kb": 201.0, "batches": 4.56, "idle": 25.0, "jitter": 20.0, "assembly": 21.0, "at_once": 14.0},
    60: {"frame_kb": 99.0, "batches": 2.54, "idle": 20.0, "jitter": 9.0, "assembly": 9.0, "at_once": 13.0},
    90: {"frame_kb": 77.0, "batches": 2.1, "idle": 15.0, "jitter": 7.0, "assembly": 6.0, "at_once": 14.0},
}
INTERVAL_MS = 5.56
CLOSE_PERCENT = 97.0
DOWN_PERCENT, VIDEO_PERCENT = 99.3, 99.5
AT_ONCE_PERCENT = {"down": 89.7, "up": 10.1}
ROUND_TRIP_MS = 1.5
# Maximum loss according to the ITU-T, as the study quotes it.
LOST_PERCENT = 0.001
SECONDS = 30.0
# The transmission media of the captures that decide claims about Wi-Fi.
WIFI_MODEL = "wifi-model"
WIFI = ("wifi", WIFI_MODEL)
# The figures and sections whose claims are about each of the three frame rates. Section 6.3 is about figure 11.
OF_EACH_RATE = ("figure 10", "section 6.3", "figure 12", "figure 13", "figure 15(b)", "figure 15(c)", "figure 18")
# Figures 19 to 22.
PACKET_MS = {30: 1.32, 60: 1.20, 90: 1.12}
AMPDU = {30: 13.0, 60: 12.0, 90: 11.0}
INTERVALS_MS = (0.01, 1.0, 2.0, 4.0, 5.56)
PACKET_BY_INTERVAL_MS = (1.68, 1.40, 1.30, 1.30, 1.35)
FRAME_BY_INTERVAL_MS = (3.10, 3.52, 4.45, 6.40, 8.18)
AIRTIME_PERCENT = {30: 16.0, 90: 35.0}
RUNS, RUN_SECONDS = 10, 10.0

# Tolerance of a mean of the captures: a guess with margin. The study's three games differ by less than this share, and
# its trials of one game by still less.
TOLERANCE = 0.15
# The frame rate of the captures of variants, in frames/s.
VARIANT_RATE = 60

# The bounds of all claims. If the bound is None, each row has its own bound, which table and verdict share.
GAMES = "the study's three games differ by less; 15 % is a guess with margin"
CAPTURED = Tolerance("each mean over at least three captures of 30 s is within 15 % of the study's", None, GAMES)
OF_EACH_RATE_CAPTURED = Tolerance(
    "at each of the three frame rates, each mean over at least three captures of 30 s is within 15 % of the study's",
    None,
    GAMES,
)
SHARES = Tolerance(
    "at least 98.6 % of the load is downstream, and at least 99 % of the downstream load is video",
    None,
    "the smaller part of each load (upstream, or streams other than video) may double or be absent",
)
CLOSE = Tolerance(
    "the share is within 3 percentage points of the study's", None, "the remaining 3 % may double or be absent"
)
STREAMS = Tolerance(
    "for all nine streams, each mean over at least three captures of 30 s is within 15 % of the study's", None, GAMES
)
FRAMES = Tolerance(
    "at each of the three frame rates, the mean interval is within 5 % of the study's, and the mean size within 15 %",
    None,
    "the frame rate is configured, but the frame size is not",
)
LOST = Tolerance(
    f"at most {LOST_PERCENT} % of the packets are lost", None, "this is the ITU-T's bound, as the study quotes it"
)
MODELLED = Tolerance(
    "each mean is within 5 % (packet delays), 4 % (frame delays), one packet (A-MPDUs) or 15 % (buffer) of the paper's",
    None,
    "the paper's means have two or three digits and no intervals (guesses, perhaps made after the first run)",
)
RISE = Tolerance(
    "from 30 to 90 frames/s, the relative rise of the airtime is at least three quarters of the paper's",
    0.75,
    "a quarter of the paper's rise is 5 percentage points of airtime (a guess)",
)
RISES = Tolerance(
    "the airtime rises from each of the five intervals to the next: each difference is above 0",
    0.0,
    "the claim is a direction, so any difference above its error counts",
)
SAME_PATTERN = Tolerance(
    "with a dynamic bitrate, the mean interval between batches, the batches per frame and the share of idle intervals are "
    "within 15 % of those with a constant bitrate",
    1 + TOLERANCE,
    "the study's three games differ by less; 15 % is a guess with margin",
)
SLOW_VP9 = Tolerance(
    "fewer than 30 frames/s are sent, although more are configured", 30.0, "the study's own bound"
)
DECODED = Tolerance(
    "the browser decodes at least 98 % of the drawn frames",
    0.98,
    "one frame more or less at each end of a measurement of 2 s is almost 2 % (a guess)",
)


@dataclass(frozen=True)
class Row:
    """A figure of the study, and our measurement of it."""

    place: str
    what: str
    unit: str
    study: float
    ours: estimate.Estimate
    tolerance: float

    @property
    def is_within(self):
        """Whether our mean lies within the tolerance. For a verdict, the whole interval must lie within it."""
        return abs(self.ours.mean - self.study) <= self.tolerance

    def check(self):
        return Check(self.ours, self.study - self.tolerance, self.study + self.tolerance)

    def text(self):
        return f"{self.what} {self.ours.text(2, self.unit)} (study {self.study:g})".replace("  ", " ")


def capture(result, end):
    return next((one for one in result.get("captures", []) if one.get("end") == end), None)


def video(one):
    """The video stream with the highest bitrate; None if there is none."""
    streams = [s for s in (one or {}).get("streams", []) if s.get("video")]
    return max(streams, key=lambda s: s.get("mbps") or 0, default=None)


def nominal_rate(result):
    """The sender's frame rate, if it is one of the study's; None for another or an unknown rate."""
    return next((rate for rate in RATES if abs(result.get("nominal_fps", 0) - rate) < 0.5), None)


def _loads(one):
    """Downstream load in percent of the load, and video in percent of the downstream load."""
    total = {"down": 0.0, "up": 0.0}
    moving = 0.0
    for stream in one.get("streams", []):
        if stream.get("way") in total and stream.get("mbps") is not None:
            total[stream["way"]] += stream["mbps"]
            moving += stream["mbps"] if stream["way"] == "down" and stream.get("video") else 0.0
    both = sum(total.values())
    if not both or not total["down"]:
        return None
    return 100 * total["down"] / both, 100 * moving / total["down"]


def _add(rows, place, what, unit, study, ours, tolerance=None):
    if ours is not None:
        allowed = study * TOLERANCE if tolerance is None else tolerance
        rows.append(Row(place, what, unit, study, estimate.Estimate(ours), allowed))


def _streams(rows, one):
    """Table 3: size, interval and bitrate of each stream of the study. Of several streams of one kind, the one with the
    highest bitrate counts: a capture is one run of each figure."""
    busiest = {}
    for stream in (one or {}).get("streams", []):
        kind = stream.get("way"), stream.get("name")
        if kind not in busiest or (stream.get("mbps") or 0) > (busiest[kind].get("mbps") or 0):
            busiest[kind] = stream
    for kind, stream in busiest.items():
        known = TABLE_3.get(kind)
        if known is None:
            continue
        what = f"{stream['name']} {stream['way']}"
        found = value(stream, "bytes/mean"), _scaled(stream, "interval_ns/mean", 1e6), stream.get("mbps")
        for (name, unit), study, ours in zip(QUANTITIES, known, found, strict=True):
            _add(rows, "table 3", f"{what}, {name}", unit, study, ours)


def _scaled(one, path, scale):
    number = value(one, path)
    return number / scale if number is not None else None


def compare(result):
    """All figures of one result that can be compared. A capture at one end lacks the figures of the other end."""
    rows = []
    rate = nominal_rate(result)
    per_rate = RATES.get(rate, {})
    any_capture = next(iter(result.get("captures", [])), None)
    loads = _loads(any_capture) if any_capture else None
    if loads:
        # The tolerance is the smaller part of the load (upstream traffic, or streams other than video), so that this
        # part may double or be absent.
        _add(rows, "section 5.2", "downstream share of the load", "%", DOWN_PERCENT, loads[0], 100 - DOWN_PERCENT)
        _add(rows, "section 5.2", "video share of this load", "%", VIDEO_PERCENT, loads[1], 100 - VIDEO_PERCENT)
    if rate == TABLE_3_RATE:
        _streams(rows, capture(result, "server") or any_capture)
    found = video(capture(result, "server"))
    if found:
        close = found.get("below_1ms_percent")
        _add(rows, "section 6.1", "video packets within 1 ms of the previous packet", "%", CLOSE_PERCENT, close, 3.0)
        _add(rows, "section 6.3", "batch to batch", "ms", INTERVAL_MS, _scaled(found, "video/usual_interval_ns", 1e6))
        if rate:
            interval = _scaled(found, "video/frames/interval_ns/mean", 1e6)
            _add(rows, "figure 10", "frame to frame", "ms", 1e3 / rate, interval, 1e3 / rate * 0.05)
            _add(rows, "figure 10", "frame", "kB", per_rate["frame_kb"], _scaled(found, "video/frames/bytes/mean", 1e3))
            _add(
                rows,
                "figure 12",
                "batches per frame",
                "",
                per_rate["batches"],
                value(found, "video/frames/batches/mean"),
            )
            idle = _scaled(found, "video/idle", 0.01)
            _add(rows, "figure 13", "idle intervals", "%", per_rate["idle"], idle)
    client = capture(result, "client")
    arrived = video(client)
    if arrived and rate:
        jitter = _scaled(arrived, "video/frame_jitter_ns/mean", 1e6)
        _add(rows, "figure 15(b)", "jitter, once a frame", "ms", per_rate["jitter"], jitter)
        assembly = _scaled(arrived, "video/frames/assembly_ns/mean", 1e6)
        _add(rows, "figure 15(c)", "assembly", "ms", per_rate["assembly"], assembly)
        at_once = value(arrived, "video/packets_at_once/mean")
        _add(rows, "figure 18", "video packets at once", "", per_rate["at_once"], at_once)
    for index, way in enumerate(("down", "up")):
        together = value(client, f"directions/{index}/at_once_percent")
        _add(rows, "figure 16", f"{way}stream packets that arrive with others", "%", AT_ONCE_PERCENT[way], together)
    round_trip = _scaled(result.data, "joined/round_trip_ns", 1e6)
    _add(rows, "figure 15(a)", "round trip, medians", "ms", ROUND_TRIP_MS, round_trip)
    sent, there = result.get("joined/down/sent"), result.get("joined/down/arrived")
    if sent:
        _add(rows, "section 7.2", "lost down", "%", 0.0, 100 * (sent - there) / sent, LOST_PERCENT)
    return rows


def of_variant(results, variant):
    """The results of captures of this variant of the stream; None stands for H.264 with a dynamic bitrate."""
    return [result for result in results.of("lab traffic") if result.get("variant") == variant]


def doubt(result):
    """The reason why a capture decides nothing, or None."""
    captures = result.get("captures", [])
    if any(one.get("generated") for one in captures):
        return "the capture was generated, so it tests the analysis, but not a network"
    if any(one.get("broken") for one in captures):
        return "the capture is incomplete"
    shortest = min((one.get("seconds", 0) for one in captures), default=0)
    if shortest < SECONDS * 0.9:
        return f"the capture lasts {shortest:.0f} s instead of {SECONDS:.0f} s as in the study"
    return None


def over_captures(found, place):
    """The rows of a place by (frame rate, quantity), each with the mean over several results of captures."""
    values = {}
    for result in found:
        for row in (row for row in compare(result) if row.place == place):
            values.setdefault((nominal_rate(result), row.what), []).append(row)
    return {key: replace(rows[0], ours=estimate.of(row.ours.mean for row in rows)) for key, rows in values.items()}


def missing(rows, place):
    """The reason why rows of a place by (frame rate, quantity) lack a part of the claim; None if they are complete."""
    if place == "table 3":
        streams = {f"{name} {way}": 0 for way, name in TABLE_3}
        for _, what in rows:
            streams[what.rsplit(", ", 1)[0]] += 1
        absent = [stream for stream, found in streams.items() if found < len(QUANTITIES)]
        return f"without a size, interval or bitrate of {', '.join(absent)}" if absent else None
    if place not in OF_EACH_RATE:
        return None
    quantities = {what for _, what in rows}
    rates = [f"{rate}" for rate in RATES if any((rate, what) not in rows for what in quantities)]
    return f"not captured at {' and '.join(rates)} frames/s" if rates else None


def captured(place, needs_wifi=False):
    """Judges the rows of a section or figure. With `needs_wifi`, only captures over Wi-Fi or over its model decide."""

    def judge(results, _):
        every = of_variant(results, None)
        if not every:
            return None
        sound = [result for result in every if not doubt(result)]
        over_wifi = [result for result in sound if not needs_wifi or result.get("medium") in WIFI]
        rows = over_captures(over_wifi or sound or every, place)
        if not rows:
            needs = "RTP video captured at its end (--end) or at both ends, and the sender's frame rate (--sent-fps)"
            return Verdict(Mark.NOT_MEASURED, f"the capture does not contain this figure, which needs {needs}")
        several = place in OF_EACH_RATE or len({rate for rate, _ in rows}) > 1
        why = "; ".join(f"{rate} frames/s: {row.text()}" if several else row.text() for (rate, _), row in rows.items())
        if not sound:
            return Verdict(Mark.INCONCLUSIVE, f"{why}; {doubt(every[0])}")
        if not over_wifi:
            return Verdict(Mark.NOT_TESTABLE, f"{why}; not captured over Wi-Fi or its model (--medium)")
        if needs_wifi and any(result.get("medium") == WIFI_MODEL for result in over_wifi):
            why = f"over the model of Wi-Fi, {why}"
        lacks = missing(rows, place)
        if lacks:
            return Verdict(Mark.INCONCLUSIVE, f"{why}; {lacks}")
        return judged((row.check() for row in rows.values()), why)

    return judge


# The figures of a captured stream that describe its pattern of packets, by the path in the server's video stream.
PATTERN = {
    "batch to batch": "video/usual_interval_ns",
    "batches per frame": "video/frames/batches/mean",
    "idle intervals": "video/idle",
}


def _variants(results, *variants):
    """The sound captures of each variant at 60 frames/s; also the verdict if captures of a variant are missing."""
    every = results.of("lab traffic")
    found = [
        [result for result in of_variant(results, variant) if nominal_rate(result) == VARIANT_RATE and not doubt(result)]
        for variant in variants
    ]
    absent = [variant or "dynamic" for variant, runs in zip(variants, found, strict=True) if not runs]
    lacking = Verdict(Mark.INCONCLUSIVE, f"not captured at {VARIANT_RATE} frames/s: {', '.join(absent)}")
    return found, (lacking if absent and every else None)


def _of_video(runs, path):
    return [value(video(capture(result, "server")), path) for result in runs]


def same_pattern(results, bound):
    """Judges whether a dynamic and a constant bitrate have the same pattern of packets."""
    (dynamic, constant), lacking = _variants(results, None, "constant")
    if lacking:
        return lacking
    text, checks = [], []
    for what, path in PATTERN.items():
        ratio = estimate.ratio(_of_video(dynamic, path), _of_video(constant, path))
        if ratio is None:
            return None
        checks.append(Check(ratio, 1 / bound, bound))
        text.append(f"{what} {ratio.text(2)}")
    return judged(checks, f"with a dynamic bitrate, relative to a constant one: {', '.join(text)}")


def slow_vp9(results, bound):
    (runs,), lacking = _variants(results, "vp9")
    if lacking:
        return lacking
    intervals = _of_video(runs, "video/frames/interval_ns/mean")
    if not intervals or None in intervals:
        return None
    rate = estimate.of(1e9 / interval for interval in intervals)
    return judged([Check(rate, most=bound)], rate.text(1, "frames/s"))


def _simulated(results):
    return next((result for result in results.of("lab wifi") if result.get("paper")), None)


def too_little(result):
    if result.get("runs", 0) < RUNS or result.get("seconds", 0) < RUN_SECONDS:
        runs, seconds = result.get("runs"), result.get("seconds")
        return f"{runs} runs of {seconds:g} s instead of the paper's {RUNS} runs of {RUN_SECONDS:g} s"
    return None


def simulated(place):
    """Judges the rows of a figure of the simulations by their tolerances."""

    def judge(results, _):
        result = _simulated(results)
        if result is None:
            return None
        rows = [
            Row(
                row["place"],
                row["what"],
                row["unit"],
                row["paper"],
                estimate.Estimate(row["mean"], row.get("ci95"), result.get("runs", 1)),
                row["tolerance"],
            )
            for row in result.get("paper/rows", [])
            if row["place"] == place
        ]
        if not rows:
            return None
        ours, papers = ", ".join(row.ours.text(2) for row in rows), ", ".join(f"{row.study:.2f}" for row in rows)
        inside = sum(row.is_within for row in rows)
        unit = f" {rows[0].unit}" if rows[0].unit else ""
        why = f"{ours}{unit} in our model, {papers} in the paper; {inside} of {len(rows)} within the tolerance"
        few = too_little(result)
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {few}") if few else judged((row.check() for row in rows), why)

    return judge


def _case(result, group, index, quantity):
    found = result.get(f"paper/{group}/{index}/values/{quantity}")
    return estimate.Estimate(found["mean"], found.get("ci95"), result.get("runs", 1)) if found else None


def airtime(results, bound):
    result = _simulated(results)
    if result is None:
        return None
    both = []
    for index in (0, 2):
        parts = [_case(result, "rates", index, f"airtime_{way}_percent") for way in ("down", "up")]
        if None in parts:
            return None
        both.append(estimate.total(parts))
    low, high = both
    times, paper = estimate.quotient(high, low), AIRTIME_PERCENT[90] / AIRTIME_PERCENT[30]
    if times is None:
        return None
    why = f"both directions together {low.text(1, '%')} and {high.text(1, '%')}: "
    why += f"{times.text(2)} times, in the paper {paper:.1f} times; "
    why += "the paper's packets per A-MPDU and batches per second do not allow a larger factor"
    few = too_little(result)
    if few:
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {few}")
    return judged([Check(times, 1 + (paper - 1) * bound)], why)


def interval_airtime(results, bound):
    """Judges the trend over all five intervals, from each interval to the next longer one."""
    result = _simulated(results)
    if result is None:
        return None
    found = [_case(result, "intervals", index, "airtime_down_percent") for index in range(len(INTERVALS_MS))]
    if None in found:
        return None
    why = "at intervals of " + ", ".join(
        f"{ms:g} ms {one.text(1, '%')}" for ms, one in zip(INTERVALS_MS, found, strict=True)
    )
    few = too_little(result)
    if few:
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {few}")
    pairs = zip(found, found[1:], strict=False)
    return judged((Check(estimate.less(longer, shorter), bound) for shorter, longer in pairs), why)


def decoded(results, bound):
    """The share of the drawn frames that a browser decodes, on a link without loss."""
    web = results.first("bench web")
    direct = named(web.get("browsers", []), "direct") if web else None
    if direct is None:
        return None
    frames = [estimate.runs_of(direct.get(f"{what}_fps")) for what in ("decoded", "drawn")]
    share = estimate.ratio(*frames)
    if share is None:
        return None
    made, drawn = (estimate.of(fps) for fps in frames)
    why = f"{made.text(1)} of {drawn.text(1)} frames/s are decoded: {share.text(3)} of them"
    return judged([Check(share, bound)], why)


DATA = ("lab traffic",)
MODEL = ("lab wifi --paper",)
OTHER_PROGRAMS = "captures of programs other than Unity are judged by the same rules"
OVER_MODEL = "captures over the model of Wi-Fi are judged by the same rules"
MEDIANS_ONLY = (
    "the round trip is the sum of the median delays of both directions; its 99.99th percentile is not judged, because "
    "the analysis does not pair requests with answers"
)
# Assumptions of the model that were chosen to fit the paper's figures (`docs/studies/wifi.md`).
GUARD = (
    "to fit the figures, the guard interval is 3200 ns (with the 800 ns of the paper's testbed, the delay of figure 19 "
    "at 60 frames/s is 6 % off)"
)
WIRE = "to fit the figures, the wire between server and access point has 1 Gb/s"
OWN_STREAM = "OpenUVR's stream at 60 frames/s in Chromium is measured instead of Unity's at 30, 60 and 90 frames/s"


def _model_claim(place, text, judge, chosen="", tolerance=MODELLED):
    return Claim(place, text, tolerance, MODEL, judge, chosen, is_timed=False)


def _capture_claim(place, text, tolerance=None, needs_wifi=False, name=None, chosen=OTHER_PROGRAMS):
    tolerance = tolerance or (OF_EACH_RATE_CAPTURED if place in OF_EACH_RATE else CAPTURED)
    chosen = f"{chosen}; {OVER_MODEL}" if needs_wifi else chosen
    return Claim(
        name or place, text, tolerance, DATA, captured(place, needs_wifi), chosen, is_timed=False
    )


CLAIMS = (
    _capture_claim(
        "section 5.2",
        f"{DOWN_PERCENT} % of the load is downstream, and {VIDEO_PERCENT} % of the downstream load is video.",
        SHARES,
        name="section 5.2",
    ),
    _capture_claim(
        "table 3",
        "At 90 frames/s, each stream has its own pattern: video has packets of 1242 bytes every 0.19 ms, audio has "
        "packets of 83 bytes every 20 ms, and there are seven other streams.",
        STREAMS,
        name="figure 7, table 3",
    ),
    _capture_claim(
        "section 6.1",
        "97 % of the video packets follow the previous packet within microseconds.",
        CLOSE,
        name="figure 9(b)",
    ),
    _capture_claim(
        "figure 10",
        "Frames arrive at the configured rate and have 77, 99 and 201 kB at 90, 60 and 30 frames/s.",
        FRAMES,
    ),
    _capture_claim("section 6.3", f"Batches are sent every {INTERVAL_MS} ms at each frame rate.", name="figure 11"),
    _capture_claim("figure 12", "A frame takes 2.1, 2.54 and 4.56 batches at 90, 60 and 30 frames/s."),
    _capture_claim("figure 13", "15, 20 and 25 % of the intervals are idle at 90, 60 and 30 frames/s."),
    Claim(
        "figure 14",
        "All encoded frames are decoded, up to 90 frames/s.",
        DECODED,
        ("bench web",),
        decoded,
        OWN_STREAM,
    ),
    _capture_claim(
        "figure 15(a)",
        f"The round trip takes {ROUND_TRIP_MS} ms; its 99.99th percentile is 4 to 5 ms.",
        needs_wifi=True,
        chosen=f"{OTHER_PROGRAMS}; {MEDIANS_ONLY}",
    ),
    _capture_claim(
        "figure 15(b)", "Over Wi-Fi, the jitter is 7, 9 and 20 ms at 90, 60 and 30 frames/s.", needs_wifi=True
    ),
    _capture_claim("section 7.2", "Over Wi-Fi, no packet is lost in the end.", LOST, needs_wifi=True),
    _capture_claim(
        "figure 15(c)",
        "Over Wi-Fi, all packets of a frame arrive within 6, 9 and 21 ms at 90, 60 and 30 frames/s.",
        needs_wifi=True,
    ),
    _capture_claim(
        "figure 16",
        "Over Wi-Fi, 89.7 % of the downstream packets and 10.1 % of the upstream packets arrive with others.",
        needs_wifi=True,
    ),
    not_testable(
        "figure 17",
        "Video packets are aggregated into A-MPDUs.",
        "the test needs a Wi-Fi card in monitor mode, which captures radio frames",
    ),
    _capture_claim(
        "figure 18",
        "Over Wi-Fi, 14, 13 and 14 video packets arrive at once at 90, 60 and 30 frames/s.",
        needs_wifi=True,
    ),
    _model_claim(
        "figure 19",
        "Over Wi-Fi 6, a video packet takes 1.32, 1.20 and 1.12 ms at 30, 60 and 90 frames/s.",
        simulated("fig. 19"),
        f"delays count from the arrival in the access point's queue; {GUARD}",
    ),
    _model_claim(
        "figure 20",
        "An A-MPDU has 13, 12 and 11 packets at 30, 60 and 90 frames/s.",
        simulated("fig. 20"),
        f"only delivered packets count; {GUARD}",
    ),
    _model_claim(
        "section 8.2.1, buffer",
        "The buffer's occupancy is 26 packets at 30 and 17 at 90 frames/s.",
        simulated("8.2.1"),
        f"occupancy is the number of packets that an arriving packet finds queued (the paper's unit is %); {GUARD}",
    ),
    _model_claim(
        "section 8.2.1, airtime",
        "The airtime rises from 16 % at 30 to 35 % at 90 frames/s.",
        airtime,
        f"the airtime of both directions counts; {GUARD}",
        RISE,
    ),
    _model_claim(
        "figure 21",
        "The interval between batches hardly changes the packet delay: 1.30 to 1.68 ms.",
        simulated("fig. 21"),
        f"a frame has 1 to 3 batches at every interval; delays count from the server; {WIRE}; {GUARD}",
    ),
    _model_claim(
        "figure 22",
        "Frames take 3.10 to 8.18 ms, rising with the interval between their batches.",
        simulated("fig. 22"),
        "a frame has 1 to 3 batches at every interval; the paper's rule gives more batches and longer delays; "
        f"{WIRE}; {GUARD}",
    ),
    _model_claim(
        "section 8.2.2",
        "Shorter intervals between batches take less airtime.",
        interval_airtime,
        f"only the access point's airtime counts; {GUARD}",
        RISES,
    ),
    not_testable(
        "appendix A",
        "With the motion of a headset as input, the video is the same, except for the headset's own frame rate, 72 "
        "frames/s. No packet is lost, the round trip takes 1.8 ms and the jitter is 7.3 ms.",
        "the test needs a headset that is connected to the host and moves the view, and a client over Wi-Fi",
    ),
    Claim(
        "appendix B, pattern",
        "A dynamic bitrate of 10 to 50 Mb/s has the same pattern of packets as a constant one.",
        SAME_PATTERN,
        ("lab traffic --variant constant", "lab traffic"),
        same_pattern,
        f"captured at {VARIANT_RATE} frames/s; {OTHER_PROGRAMS}; {OVER_MODEL}",
        is_timed=False,
    ),
    Claim(
        "appendix B, VP9",
        "VP9 stays below 30 frames/s.",
        SLOW_VP9,
        ("lab traffic --variant vp9",),
        slow_vp9,
        f"{VARIANT_RATE} frames/s are configured; {OTHER_PROGRAMS}",
        is_timed=False,
    ),
    not_testable(
        "appendix B, capacity",
        "With a dynamic bitrate, the estimated capacity often falls to 10 Mb/s. In Firefox, it is steadier than in "
        "Chromium.",
        "the test needs Unity's sender, because the estimate is part of its WebRTC library; bench web --rate-control "
        "compares OpenUVR's congestion controls",
    ),
    not_testable(
        "appendix C",
        "Other WebRTC services send batches, too: GeForce NOW every 1.4 ms, Google Meet every 5.12 ms.",
        "the test needs captures of these services, so it needs the Internet and accounts; lab traffic analyses such "
        "captures",
    ),
)
