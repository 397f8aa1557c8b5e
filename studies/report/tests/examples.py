"""Synthetic results: for each claim, results that support it and results that refute it."""

from report.papers.unity import RATES, TABLE_3
from report.results import Results


def repeated(*values):
    """A repeated measurement as benches write it."""
    ordered = sorted(values)
    return {"median": ordered[len(ordered) // 2], "min": ordered[0], "max": ordered[-1], "values": list(values)}


def around(mean, spread=0.05, runs=5):
    return [mean + spread * (number - (runs - 1) / 2) for number in range(runs)]


def step(begin, end, ms):
    return {"from": begin, "to": end, "ms": {"mean": ms, "p50": ms, "p99": ms * 1.2}}


# The links of the configurations that select one.
LINKS = {"a call per datagram": "udp", "raw Ethernet": "raw"}


def ablation_run(name, ms, network=1.0, encoding=6.0, client=2.0, display=1.0):
    return {
        "configuration": name,
        "latency_ms": {"p50": ms, "mean": ms},
        "link": LINKS.get(name, "udp-gso"),
        "drawn": 240,
        "complete": 238,
        "steps": [
            step("drawn", "Captured", 2.0),
            step("Captured", "Converted", 1.0),
            step("Converted", "FirstSlice", encoding),
            step("FirstSlice", "Encoded", 0.0),
            step("Encoded", "Recoverable", network),
            step("Recoverable", "Decoded", client),
            step("Decoded", "Submitted", 0.0),
            step("Submitted", "visible", display),
        ],
    }


CUMULATIVE = ("conventional", "+ two encoder threads", "+ segmentation offload", "+ real-time scheduling")


def ablation(
    conventional=40.0, ours=10.0, rgb=6.0, single=30.0, raw=15.0, network=1.0, encoding=6.0, client=2.0, display=5.0
):
    medians = dict(zip(CUMULATIVE, (conventional, 25.0, 20.0, ours), strict=True))
    medians |= {"RGB, not converted": rgb, "a call per datagram": single, "raw Ethernet": raw}
    runs = [
        ablation_run(name, ms, network, encoding, client, display)
        for name, mean in medians.items()
        for ms in around(mean, 0.01)
    ]
    # Make all runs slightly different, as real runs are.
    for number, run in enumerate(runs):
        for one in run["steps"]:
            one["ms"]["mean"] += number % 5 * 0.001
    row = {name: {"name": name, "p50_ms": repeated(*around(mean, 0.01)), "runs": 5} for name, mean in medians.items()}
    return {
        "repetitions": 5,
        "seconds": 4.0,
        "quick": False,
        "other_cores": 0.0,
        "cumulative": [row[name] for name in CUMULATIVE],
        "leave_one_out": [],
        "alternatives": [row["RGB, not converted"]],
        "links": [row["a call per datagram"], row["raw Ethernet"]],
        "busy": [],
        "runs": runs,
    }


def sync(captured=12.0, submitted=6.0, waiting=6.1, psnr=(40.0, 40.1)):
    def way(name, mean, db):
        return {
            "name": name,
            "what": "",
            "p50_ms": repeated(*around(mean)),
            "psnr_db": {"p50": db},
            "psnr_runs_db": repeated(*around(db)),
            "complete": 0.99,
        }

    return {
        "quick": False,
        "seconds": 6.0,
        "other_cores": 0.0,
        "ways": [
            way("captured", captured, 40.0),
            way("submitted", submitted, psnr[0]),
            way("lock-step", waiting, psnr[1]),
        ],
    }


def line(measure, varied, name, ends, loss=0, constant=False, batches=5):
    points = [
        {
            "x": float(x),
            "label": str(x),
            "mean": mean,
            "worst": mean,
            "batch_means": around(mean, abs(mean) * 1e-4, batches),
        }
        for x, mean in enumerate(ends)
    ]
    return {"name": name, "constant_rate": constant, "loss_percent": loss, "points": points}


def figure(measure, varied, *series):
    return {
        "title": f"{measure} against {varied}",
        "measure": measure,
        "varied": varied,
        "x": "loss, %",
        "y": f"{measure}, dB",
        "series": list(series),
    }


def quality(psnr=None, ssim=None, varied="delay", **settings):
    """Figures of one varied quantity; `psnr` and `ssim` are (first, last)."""
    figures = []
    for measure, ends in (("PSNR", psnr), ("SSIM", ssim)):
        if ends:
            figures.append(figure(measure, varied, line(measure, varied, "scene", ends, **settings)))
    conditions = {"seconds": 600.0, "target_mbps": 20.0, "height_pixels": 1080, "fps": 60}
    return {"quick": False, "figures": figures} | conditions


# The number of batches of 150 frames in ten minutes at 60 frames/s.
TEN_MINUTES = 240


def gop(clean, lossy):
    lines = (line("PSNR", "gop", "no loss", clean), line("PSNR", "gop", "1 % loss", lossy, loss=1))
    return quality() | {"figures": [figure("PSNR", "gop", *lines)]}


def batches(*ssim):
    """`bench quality --batches` under the paper's conditions."""
    begin = [10.0 * number for number in range(len(ssim))]
    psnr = [40.0] * len(ssim)
    clip = {"content": "scene", "begin_s": begin, "ssim": list(ssim), "psnr": psnr, "missing": [], "unseen": 0}
    return {
        "quick": False,
        "other_cores": 0.0,
        "seconds": 600.0,
        "target_mbps": 20.0,
        "height_pixels": 1080,
        "fps": 60,
        "batches": [clip],
    }


def feedback(saved=0.1, gained=0.2):
    """`bench quality --feedback`: latency saved in ms and SSIM gained."""

    def way(name, latency, ssim):
        return {
            "name": name,
            "options": "",
            "runs": 5,
            "latency_ms": repeated(*around(latency)),
            "ssim": repeated(*around(ssim, 0.001)),
            "psnr_db": repeated(*around(100 * ssim - 60)),
            "complete": repeated(*around(0.9, 0.001)),
            "failed": None,
        }

    ways = [
        way("no feedback", 10.0, 0.7),
        way("key frames on request", 10.0, 0.8),
        way("references by reports", 10.0 - saved, 0.7 + gained),
    ]
    return {
        "quick": False,
        "other_cores": 0.0,
        "loss_percent": 1,
        "round_trip_ms": 4,
        "repetitions": 5,
        "seconds": 6.0,
        "bitrate": "20M",
        "feedback": [{"content": "scene", "size": "1280x720", "ways": ways}],
    }


def load(mbps):
    point = {"x": 0.0, "label": "scene", "mean": mbps, "batch_means": around(mbps, 0.01)}
    down = {"name": "down", "points": [point]}
    one = {
        "title": "Network load",
        "measure": "bit rate",
        "varied": None,
        "x": "content",
        "y": "bit rate, Mb/s",
        "series": [down],
    }
    return quality() | {"target_mbps": 3.0, "figures": [one]}


def latency(reaction=20.0):
    return {
        "cases": [
            {
                "setting": {"name": "720p", "bitrate": "10M", "seconds": 20, "quick": False},
                "stream": {
                    "latency_ms": {"count": 600},
                    "seconds": 10.0,
                    "cores": {"host": 0.3, "client": 0.15},
                    "reaction_ms": around(reaction, 0.1, 50),
                    "wire_mbps": 9.0,
                    "other_cores": 0.0,
                    "steps": [
                        step("Converted", "FirstSlice", 5.0),
                        step("FirstSlice", "Encoded", 0.0),
                        step("Decoded", "Submitted", 0.0),
                        step("Submitted", "visible", 1.0),
                    ],
                },
            }
        ]
    }


def peers(**changed):
    """Programs with their p50 in ms."""
    others = {"gaminganywhere": 30.0, "gstreamer": 28.0, "webrtc": 29.0, "ffmpeg": 90.0, "tigervnc": 25.0}
    times = {"openuvr": 5.0} | others
    ways = [{"name": name, "direct": {"p50_ms": repeated(*around(ms))}} for name, ms in (times | changed).items()]
    floor = {"p50_ms": repeated(1.4, 1.4, 1.5), "p99_ms": repeated(2.0, 2.1, 2.2)}
    return {"quick": False, "seconds": 8.0, "other_cores": 0.0, "floor": floor, "ways": ways}


def web(decoded=59.9, drawn=60.0):
    direct = {"name": "direct", "decoded_fps": repeated(*around(decoded)), "drawn_fps": repeated(*around(drawn))}
    return {"quick": False, "seconds": 8.0, "other_cores": 0.0, "browsers": [direct]}


# The study's values that do not depend on the frame rate.
STUDY = {
    "down": 99.3,
    "video": 99.5,
    "close": 97.0,
    "interval": 5.56,
    "together": 89.7,
    "together_up": 10.1,
    "trip": 1.5,
    "lost": 0,
}


def traffic(seconds=30.0, medium="wifi", generated=False, rate=90, table=None, variant=None, **changed):
    """A capture; `table` replaces rows of table 3."""
    it = STUDY | RATES[rate] | {"frame": 1000 / rate} | changed
    # The study's video has 53.45 Mb/s.
    load = 53.45 / (STUDY["down"] * STUDY["video"] / 100)
    down, moving = load * it["down"], load * it["down"] * it["video"] / 100
    frames = {
        "interval_ns": {"mean": it["frame"] * 1e6},
        "bytes": {"mean": it["frame_kb"] * 1e3},
        "batches": {"mean": it["batches"]},
        "assembly_ns": {"mean": it["assembly"] * 1e6},
    }
    video = {
        "usual_interval_ns": it["interval"] * 1e6,
        "idle": it["idle"] / 100,
        "frames": frames,
        "frame_jitter_ns": {"mean": it["jitter"] * 1e6},
        "packets_at_once": {"mean": it["at_once"]},
    }
    streams = [
        {
            "name": name,
            "way": way,
            "mbps": mbps,
            "bytes": {"mean": size},
            "interval_ns": {"mean": interval_ms * 1e6},
        }
        for (way, name), (size, interval_ms, mbps) in (TABLE_3 | (table or {})).items()
    ]
    moved = next(one for one in streams if one["name"] == "RTP video")
    moved |= {"mbps": moving, "below_1ms_percent": it["close"], "video": video}
    # The rest of the load, so that the shares of the load are those of `it`.
    for way, mbps in (("down", down), ("up", load * 100 - down)):
        rest = mbps - sum(one["mbps"] for one in streams if one["way"] == way)
        streams.append({"name": "all others", "way": way, "mbps": rest, "video": None})
    directions = [
        # Groups of all streams' packets are smaller, because other streams send single packets.
        {"packets_at_once": {"mean": it["at_once"] / 1.5}, "at_once_percent": it["together"]},
        {"at_once_percent": it["together_up"]},
    ]
    capture = {"seconds": seconds, "generated": generated, "broken": None, "streams": streams, "directions": directions}
    return {
        "nominal_fps": float(rate),
        "medium": medium,
        "variant": variant,
        "captures": [capture | {"end": "server"}, capture | {"end": "client"}],
        "joined": {"round_trip_ns": it["trip"] * 1e6, "down": {"sent": 1000, "arrived": 1000 - it["lost"]}},
    }


def variants(runs=3, **changes):
    """Captures at 60 frames/s, some of them of variants with changed figures."""
    results = captures(runs=runs, rates=(60,))
    for variant, changed in changes.items():
        for _ in range(runs):
            results.add("lab traffic", traffic(rate=60, variant=variant, **changed))
    return results


def wifi(off=0.0, airtime=(16.0, 35.0), by_interval=(10.0, 11.0, 12.0, 13.0, 14.0), runs=10):
    """The simulations, each figure off by a factor of 1 + `off`."""

    def row(place, paper, tolerance):
        return {
            "place": place,
            "what": "",
            "unit": "ms",
            "paper": paper,
            "mean": paper * (1 + off),
            "ci95": 0.01,
            "tolerance": tolerance,
        }

    def case(percent):
        values = {
            "airtime_down_percent": {"mean": percent, "ci95": 0.1},
            "airtime_up_percent": {"mean": 0.0, "ci95": 0.0},
        }
        return {"name": "case", "values": values, "spreads": {}}

    places = ("fig. 19", "fig. 20", "8.2.1", "fig. 21", "fig. 22")
    return {
        "runs": runs,
        "seconds": 10.0,
        "paper": {
            "rows": [row(place, paper, 0.05 * paper) for place in places for paper in (1.3, 1.2)],
            "contradictions": [],
            "rates": [case(airtime[0]), case(sum(airtime) / 2), case(airtime[1])],
            "intervals": [case(percent) for percent in by_interval],
        },
    }


def topology(rgb=0.8, yuv=1.6, airtime=2.0, runs=10):
    rows = (("saved_rgb_ms", 0.8, rgb), ("saved_yuv_ms", 1.6, yuv), ("airtime_times", 2.0, airtime))
    found = [
        {"place": "", "name": name, "what": "", "unit": "", "paper": paper, "mean": mean, "ci95": 0.01}
        for name, paper, mean in rows
    ]
    spread = {"mean": 1.0, "ci95": 0.01, "p50": 1.0, "p99": 2.0, "p9999": 3.0}
    case = {
        "topology": "peers",
        "format": "YUV",
        "frame_ms": spread,
        "feedback_ms": spread,
        "airtime_percent": {"mean": 10.0, "ci95": 0.1},
        "values": {},
    }
    return {"runs": runs, "seconds": 10.0, "topology": {"cases": [case], "rows": found}}


def cell(
    name, median=30.0, longest=600.0, mean=None, outliers=100, shares=(0.0, 0.0), rt=False, count=10_000_000, **more
):
    return {
        "cell": name,
        "other_cores": 0.0,
        "quick": False,
        "error": None,
        "conditions": {"real_time_kernel": rt},
        "analysis": {
            "sent": {"count": count, "median": median * 1e3, "mean": (mean or median) * 1e3, "max": longest * 1e3},
            "intended": {},
            "outliers": [{"count": outliers, "in_pauses": shares[0], "by_chance": shares[1]}],
        },
    } | more


def jitter(*cells):
    return {"cells": list(cells), "incomplete": []}


def collectors(longest, shares=(0.5, 0.1)):
    """Cells of all collectors; `longest` has (other, rr) in ms."""
    return [
        cell(f"pekko/ping-pong/{policy}/{name}", 0.2, ms * 1e3, shares=shares)
        for name, both in longest.items()
        for policy, ms in zip(("other", "rr"), both, strict=True)
    ]


AS_IN_SLIDES = {"cms": (63, 212), "g1": (217, 211), "parallel": (1110, 192), "serial": (385, 717)}
# Each collector in turn behaves differently from the slides.
OPPOSITE = [AS_IN_SLIDES | {name: (100, 60 if rr > other * 1.1 else 200)} for name, (other, rr) in AS_IN_SLIDES.items()]


def of(name, data):
    return Results().add(name, data)


def bench(name, data):
    return of(f"bench {name}", data)


def ping_pong(runtime, median, longest=600.0, **more):
    name = f"{runtime}/ping-pong/other" + ("/g1" if runtime == "java" else "/cms" if runtime == "pekko" else "")
    return cell(name, median, longest, **more)


def lab_jitter(*cells, runs=3):
    """The cells in several result files, whose times differ by a few percent."""
    results = Results()
    for number in range(runs):
        results.add("lab jitter", jitter(*(_slower(one, 1 + 0.01 * number) for one in cells)))
    return results


def pairs(few, many, runs=3):
    """Cells with 1 and with 64 pairs: the medians of (threads, actors)."""
    results = Results()
    for number, medians in ((1, few), (64, many)):
        cells = [ping_pong(runtime, us) for runtime, us in zip(("pthread", "caf"), medians, strict=True)]
        for result in lab_jitter(*cells, runs=runs).all:
            results.add("lab jitter", result.data | {"command": f"openuvr lab jitter --pairs {number} --out a"})
    return results


def lengths(short, long, runs=3):
    """Cells with 1 and with 10 million messages: the medians of (threads, actors)."""
    results = Results()
    for samples, medians in ((1_000_000, short), (10_000_000, long)):
        cells = [ping_pong(runtime, us, count=samples) for runtime, us in zip(("pthread", "caf"), medians, strict=True)]
        for result in lab_jitter(*cells, runs=runs).all:
            results.add("lab jitter", result.data | {"command": f"openuvr lab jitter --samples {samples} --out a"})
    return results


def _slower(cell, factor):
    sent = {key: one if key == "count" else one * factor for key, one in cell["analysis"]["sent"].items()}
    return cell | {"analysis": cell["analysis"] | {"sent": sent}}


def captures(runs=3, rates=tuple(RATES), only=tuple(RATES), **changed):
    """Several captures at each frame rate; `changed` has an effect at the rates in `only`."""
    results = Results()
    for rate in rates:
        for _ in range(runs):
            results.add("lab traffic", traffic(rate=rate, **(changed if rate in only else {})))
    return results


def both(ablated, synchronous):
    return bench("ablation", ablated).add("bench sync", synchronous)


# (paper, place) -> (supporting results, [refuting results]). The key includes the paper, because several papers have
# the same section or figure. Each condition of a criterion is refuted by results that meet the other conditions.
_OPENUVR = {
    "figure 4": (
        bench("peers", peers()),
        [bench("peers", peers(gaminganywhere=10.0)), bench("peers", peers(gstreamer=19.4))],
    ),
    "figure 6": (
        bench("ablation", ablation(network=9.0)),
        [bench("ablation", ablation(network=3.0)), bench("ablation", ablation(network=9.0, client=8.0))],
    ),
    "figure 10": (
        bench("ablation", ablation(ours=10.0)),
        [bench("ablation", ablation(ours=16.0)), bench("ablation", ablation(conventional=90.0, ours=21.0))],
    ),
    "figure 11, transcoding": (
        bench("ablation", ablation(rgb=6.0)),
        [bench("ablation", ablation(rgb=9.0)), bench("ablation", ablation(rgb=11.4))],
    ),
    "figure 11, data sharing": (bench("sync", sync(12.0, 6.0)), [bench("sync", sync(12.0, 11.5))]),
    "figure 11, direct network I/O": (
        bench("ablation", ablation(single=30.0, raw=15.0)),
        [bench("ablation", ablation(single=30.0, raw=29.9))],
    ),
    "figure 11, topology": (of("lab wifi", topology()), [of("lab wifi", topology(yuv=0.5))]),
    "figure 11, topology and RGB": (of("lab wifi", topology()), [of("lab wifi", topology(rgb=0.1))]),
    "section IV-B1": (of("lab wifi", topology()), [of("lab wifi", topology(airtime=1.71))]),
    "figure 11, all": (
        both(ablation(rgb=6.0, raw=15.0), sync(12.0, 6.0)),
        [
            both(ablation(rgb=11.0, raw=29.9), sync(6.0, 6.5)),
            both(ablation(ours=18.0, rgb=12.0, raw=15.0), sync(12.0, 6.0)),
        ],
    ),
    "section IV-B3": (
        bench("quality", gop((35.0, 38.0), (34.0, 30.0))),
        [
            bench("quality", gop((38.0, 35.0), (34.0, 30.0))),
            bench("quality", gop((35.0, 38.0), (30.0, 34.0))),
        ],
    ),
    "figure 11, control protocol": (
        bench("quality", feedback()),
        [
            bench("quality", feedback(gained=0.04)),
            bench("quality", feedback(saved=-2.0)),
        ],
    ),
    "section V-D1": (
        bench("quality", batches(*around(0.93, 0.005, 60))),
        [
            bench("quality", batches(*around(0.89, 0.0001, 60))),
            bench("quality", quality(ssim=(0.89, 0.88), batches=TEN_MINUTES)),
        ],
    ),
    "section V-E": (
        bench("sync", sync(waiting=6.1)),
        [
            bench("sync", sync(waiting=9.0)),
            bench("sync", sync(waiting=4.0)),
            bench("sync", sync(psnr=(40.0, 38.0))),
        ],
    ),
}
_GAMINGANYWHERE = {
    "figure 7, response": (bench("latency", latency(20.0)), [bench("latency", latency(120.0))]),
    "figure 8": (
        bench("ablation", ablation()),
        [
            bench("ablation", ablation(encoding=25.0)),
            bench("ablation", ablation(encoding=1.5)),
            bench("ablation", ablation(display=9.0)),
            bench("ablation", ablation(client=6.0)),
            bench("ablation", ablation(network=8.0)),
        ],
    ),
    "figure 9(d)": (bench("quality", load(2.9)), [bench("quality", load(3.2))]),
    "figures 10(a), 11(a)": (
        bench("quality", quality((40.0, 39.8), (0.95, 0.949), "delay")),
        [
            bench("quality", quality((40.0, 35.0), (0.95, 0.949), "delay")),
            bench("quality", quality((40.0, 39.8), (0.95, 0.9), "delay")),
            bench("quality", quality((35.0, 40.0), (0.95, 0.949), "delay")),
        ],
    ),
    "figures 10(b), 11(b)": (
        bench("quality", quality((40.0, 31.0), (0.95, 0.7), "loss")),
        [
            bench("quality", quality((40.0, 40.0), (0.95, 0.7), "loss")),
            bench("quality", quality((40.0, 31.0), (0.95, 0.95), "loss")),
        ],
    ),
    "figures 10(c), 11(c)": (
        bench("quality", quality((30.0, 40.0), (0.7, 0.95), "bandwidth", constant=True)),
        [
            bench("quality", quality((38.0, 40.0), (0.7, 0.95), "bandwidth", constant=True)),
            bench("quality", quality((30.0, 40.0), (0.94, 0.95), "bandwidth", constant=True)),
        ],
    ),
}
_CAPTURED = {
    "section 5.2": ({"down": 97.0}, {"video": 98.0}),
    "figure 7, table 3": (
        {"table": {("down", "RTP audio"): (120.0, 20.0, 0.033)}},
        {"table": {("down", "RTP video"): (1242.16, 0.4, 53.45)}},
        {"table": {("up", "DTLS"): (174.97, 4.9, 0.1)}},
    ),
    "figure 9(b)": ({"close": 50.0}, {"close": 93.5}),
    "figure 10": ({"frame": 13.5}, {"frame_kb": 20.0}),
    "figure 11": ({"interval": 11.0}, {"interval": 4.0}),
    "figure 12": ({"batches": 1.0}, {"batches": 3.4}),
    "figure 13": ({"idle": 80.0}, {"idle": 5.0}),
    "figure 15(a)": ({"trip": 8.0}, {"trip": 1.0}),
    "figure 15(b)": ({"jitter": 1.0}, {"jitter": 12.0}),
    "section 7.2": ({"lost": 5},),
    "figure 15(c)": ({"assembly": 1.0}, {"assembly": 12.0}),
    "figure 16": ({"together": 10.0}, {"together_up": 50.0}),
    "figure 18": ({"at_once": 2.0}, {"at_once": 20.0}),
}
# The figures that a single frame rate must be able to refute.
_OF_EACH_RATE = ("figure 10", "figure 11", "figure 12", "figure 13", "figure 15(b)", "figure 15(c)", "figure 18")


def _refuting(place, change):
    return [captures(only=[rate], **change) for rate in RATES] if place in _OF_EACH_RATE else [captures(**change)]


_UNITY = {
    place: (captures(), [results for change in changes for results in _refuting(place, change)])
    for place, changes in _CAPTURED.items()
} | {
    place: (of("lab wifi", wifi()), [of("lab wifi", wifi(off=0.2)), of("lab wifi", wifi(off=-0.2))])
    for place in ("figure 19", "figure 20", "section 8.2.1, buffer", "figure 21", "figure 22")
}
_UNITY |= {
    "appendix B, pattern": (
        variants(constant={}),
        [variants(constant=change) for change in ({"interval": 11.0}, {"batches": 1.0}, {"idle": 80.0})],
    ),
    "appendix B, VP9": (variants(vp9={"frame": 50.0}), [variants(vp9={"frame": 20.0})]),
    "figure 14": (bench("web", web()), [bench("web", web(decoded=45.0)), bench("web", web(decoded=58.0))]),
    "section 8.2.1, airtime": (of("lab wifi", wifi()), [of("lab wifi", wifi(airtime=(28.9, 31.9)))]),
    "section 8.2.2": (
        of("lab wifi", wifi()),
        [
            of("lab wifi", wifi(by_interval=(10.0, 11.0, 12.0, 13.0, 12.0))),
            of("lab wifi", wifi(by_interval=(11.0, 10.0, 12.0, 13.0, 14.0))),
        ],
    ),
}
_SEARIS = {
    "threads": (
        lab_jitter(ping_pong("pthread", 30.0)),
        [lab_jitter(ping_pong("pthread", 300.0)), lab_jitter(ping_pong("pthread", 3.0))],
    ),
    "C++ actors": (
        lab_jitter(ping_pong("pthread", 30.0), ping_pong("caf", 0.5)),
        [lab_jitter(ping_pong("pthread", 30.0), ping_pong("caf", 15.0))],
    ),
    "Akka": (
        lab_jitter(ping_pong("java", 60.0), ping_pong("pekko", 9000.0), cell("pekko/flood/other/cms", 9000.0)),
        [
            lab_jitter(ping_pong("java", 60.0), ping_pong("pekko", 0.2), cell("pekko/flood/other/cms", 0.5)),
            lab_jitter(ping_pong("java", 9e4), ping_pong("pekko", 9000.0), cell("pekko/flood/other/cms", 9000.0)),
        ],
    ),
    "RT kernel": (
        lab_jitter(ping_pong("pthread", 30.0, outliers=9), ping_pong("pthread", 43.0, outliers=1, rt=True)),
        [
            lab_jitter(ping_pong("pthread", 30.0, outliers=1), ping_pong("pthread", 43.0, outliers=9, rt=True)),
            lab_jitter(ping_pong("pthread", 30.0, outliers=9), ping_pong("pthread", 20.0, outliers=1, rt=True)),
        ],
    ),
    "JVM and scheduler": (
        lab_jitter(ping_pong("java", 60.0, 20_000.0), ping_pong("pthread", 30.0, 600.0)),
        [lab_jitter(ping_pong("java", 60.0, 700.0), ping_pong("pthread", 30.0, 600.0))],
    ),
    "SCHED_RR": (
        lab_jitter(*collectors(AS_IN_SLIDES)),
        [lab_jitter(*collectors(longest)) for longest in OPPOSITE],
    ),
    "parallelism": (pairs((10.0, 1.0), (80.0, 2.0)), [pairs((10.0, 1.0), (20.0, 8.0))]),
    "longer runs": (
        lengths((25.0, 0.5), (26.0, 0.5)),
        [lengths((25.0, 0.5), (50.0, 0.5)), lengths((25.0, 0.5), (25.0, 0.25))],
    ),
    "collectors": (
        lab_jitter(*collectors(AS_IN_SLIDES)),
        [
            lab_jitter(*collectors(AS_IN_SLIDES, (0.5, 0.4))),
            lab_jitter(*collectors(AS_IN_SLIDES, (0.05, 0.01))),
            lab_jitter(*collectors(AS_IN_SLIDES, (1.0, 0.1))),
        ],
    ),
}
EXAMPLES = {
    (paper, place): sides
    for paper, claims in (
        ("OpenUVR", _OPENUVR),
        ("GamingAnywhere", _GAMINGANYWHERE),
        ("Unity Render Streaming over Wi-Fi", _UNITY),
        ("SEARIS: application-stage latencies", _SEARIS),
    )
    for place, sides in claims.items()
}
