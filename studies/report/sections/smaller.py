"""Benches with one table each: scheduling, sound, pads, sensor, sessions, encoders, VR."""

import math

from .. import plots
from ..blocks import ABSENT, Section, number, target
from ..blocks import estimate as cell
from ..results import value

# Targets of `bench scheduling`, µs: p99 and p99.9 under FIFO, and the median of sealing a frame.
P99_US, P999_US, SEAL_US = 10, 50, 10
# Minimum number of messages of a judged row, as in the bench. With fewer, p99.9 would be the maximum.
ENOUGH_MESSAGES = 1000


def scheduling(results):
    found = results.first("bench scheduling")
    if found is None:
        return None
    made = Section("Scheduling latency between threads, and sealing")
    withheld = found.withheld

    def row(name, us, judged=""):
        return [name, number(us, "count", 0), *(number(us, key, 1) for key in ("p50", "p99", "p999", "max")), judged]

    rows = []
    for one in found.get("wake_ups", []):
        how = f", {one['how']}" if one.get("how") else ""
        judged = ""
        if one.get("real_time"):
            late = max(value(one, "us/p99", 0) / P99_US, value(one, "us/p999", 0) / P999_US)
            received = value(one, "us/count", 0)
            few = "too few messages" if received < ENOUGH_MESSAGES else None
            # A lost message counts as later than any bound.
            judged = target(late if received >= one.get("sent", 0) else math.inf, 1, withheld=withheld or few)
        rows.append(row(f"{one['primitive']}, {one['policy']}{how}", one.get("us"), judged))
    for us, slices in zip(found.get("sealing_us", []), ("1 slice", "8 slices"), strict=False):
        rows.append(row(f"sealing 42 kB in {slices}", us, target(value(us, "p50"), SEAL_US, withheld=withheld)))
    made.table(["", "received", "p50, µs", "p99, µs", "p99.9, µs", "max, µs", "target"], rows)
    made.text(f"Targets under FIFO: p99 {P99_US} µs, p99.9 {P999_US} µs; sealing p50 {SEAL_US} µs.")
    cost = [found.get(f"recording_ns/{key}") for key in ("sent", "woke", "off")]
    if None not in cost:
        made.text(
            "Recording a wake-up takes {:.0f} ns in the waker and {:.0f} ns in the woken thread; "
            "when off, {:.1f} ns.".format(*cost)
        )
    return made


def sound(results):
    found = results.first("bench sound")
    if found is None:
        return None
    made = Section("Sound")
    withheld, quick = found.withheld, "quick run" if found.is_quick else None
    ways = found.get("ways", [])
    last = ways[-1] if ways else {}
    bounds = found.get("targets", {})
    # Clicks that were not heard are missing from the percentiles, but they would be the latest ones.
    unheard, heard = value(last, "unheard", 0), value(last, "sound_ms/count", 0)
    few, too_few = (
        withheld or ("clicks were not heard" if unheard > share * (heard + unheard) else None) for share in (0.01, 0.1)
    )
    judged = [
        ("click from sink to sink, p50", value(last, "sound_ms/p50"), "p50_ms", "ms", 1, too_few),
        ("click from sink to sink, p99", value(last, "sound_ms/p99"), "p99_ms", "ms", 1, few),
        (
            "offset to the video, p50 (above 0: sound is later)",
            value(last, "offset_ms/p50"),
            "offset_ms",
            "ms",
            1,
            too_few,
        ),
        ("cost at the host", found.get("cost/host"), "cores", "% of a core", 100, withheld),
        ("cost at the client", found.get("cost/client"), "cores", "% of a core", 100, withheld),
    ]
    judged += [
        (f"{link['name']}: longest concealment", link.get("longest_ms"), "concealment_ms", "ms", 1, quick)
        for link in found.get("links", [])
    ]
    rows = []
    for what, measured, key, unit, scale, why in judged:
        bound = bounds.get(key)
        size = abs(measured) if measured is not None else None
        shown = number({"v": measured}, "v", 1, scale)
        rows.append([what, f"{shown} {unit}", f"≤ {(bound or 0) * scale:g} {unit}", target(size, bound, withheld=why)])
    made.table(["", "measured", "bound", "target"], rows)
    keys = [
        ("p50_ms", 1),
        ("p99_ms", 1),
        ("host_cores", 100),
        ("client_cores", 100),
        ("host_audio_cores", 100),
        ("client_audio_cores", 100),
        ("delay_ms", 1),
    ]
    heads = [
        "",
        "video p50, ms",
        "video p99, ms",
        "host, % of a core",
        "client, %",
        "host's audio thread, % of a core",
        "client's audio thread, %",
        "target buffer, ms",
    ]
    made.table(heads, ([way["name"], *(cell(way, key, 2, scale) for key, scale in keys)] for way in ways))
    made.text("Null sinks of one sound server: the latency of sound cards is not included.")
    return made


def pads(results):
    found = results.first("bench pads")
    if found is None:
        return None
    made = Section("Game pads")
    withheld = found.withheld
    judged = target(found.get("late_ms/p50"), found.get("target_ms"), withheld=withheld)
    data = found.data
    made.table(
        [
            "",
            "p50, ms",
            "bound, ms",
            "target",
            "p50 by repetition, ms",
            "p90, ms",
            "p99, ms",
            "max, ms",
            "reports",
            "replaced by later reports",
        ],
        [
            [
                "from a pad's report to the game's read",
                number(data, "late_ms/p50"),
                number(data, "target_ms"),
                judged,
                cell(data, "p50_ms"),
                number(data, "late_ms/p90"),
                number(data, "late_ms/p99"),
                number(data, "late_ms/max"),
                number(data, "late_ms/count", 0),
                number(data, "overtaken", 0),
            ]
        ],
    )
    made.text("The scene reads the pad that `openuvr run` provides; the bench provides the client's pad.")
    return made


def sensor(results):
    found = results.first("bench sensor")
    if found is None:
        return None
    made = Section("Inertial sensor of a client")
    withheld = found.withheld
    judged = target(found.get("late_ms/p50"), found.get("target_ms"), withheld=withheld)
    data = found.data
    made.table(
        [
            "",
            "p50, ms",
            "bound, ms",
            "target",
            "p50 by repetition, ms",
            "p99 by repetition, ms",
            "max, ms",
            "samples",
        ],
        [
            [
                "from a sample to its arrival at the host",
                number(data, "late_ms/p50"),
                number(data, "target_ms"),
                judged,
                cell(data, "p50_ms"),
                cell(data, "p99_ms"),
                number(data, "late_ms/max"),
                number(data, "late_ms/count", 0),
            ]
        ],
    )
    made.text(
        "The bench provides the sensor. Each sample moves the mouse at the host, over the loopback device. The arrival "
        "time is an upper bound for the time at which the client sends the motion."
    )
    return made


def sessions(results):
    found = results.first("bench sessions")
    if found is None:
        return None
    made = Section("Portal sessions on one machine")
    made.text(
        f"{found.get('carried', 0)} sessions each reached at least "
        f"{found.get('enough', 0):g} complete frames per second."
    )
    rows = []
    for step in found.get("steps", []):
        slowest = min((played["complete_fps"] for played in step["played"]), default=0.0)
        # A session without a complete frame has no latency, so the worst is unknown.
        late = [value(played, "latency_ms/p99") for played in step["played"]]
        rows.append(
            [
                step["sessions"],
                f"{slowest:.1f}",
                ABSENT if not late or None in late else f"{max(late):.1f}",
                cell(step, "cores"),
                cell(step, "client_cores"),
                cell(step, "memory_mib", 0),
            ]
        )
    heads = [
        "sessions",
        "least complete frames/s",
        "captured to decoded, worst p99, ms",
        "cores per session",
        "cores per client",
        "memory per session, MiB",
    ]
    made.table(heads, rows)
    return made


def foveation(results):
    found = results.first("bench foveation")
    if found is None:
        return None
    made = Section("Foveated encoding")
    made.text(f"Eyes of {found.get('eye')} pixels, coded as {found.get('coded')}, at equal PSNR of the middle third.")
    keys = ("kilobits", "shrink_ms", "encode_ms", "decode_ms", "enlarge_ms", "middle_db", "whole_db")
    heads = [
        "method",
        "kbit per frame",
        "shrink, ms",
        "encode, ms",
        "decode, ms",
        "enlarge, ms",
        "PSNR middle, dB",
        "PSNR, dB",
    ]
    made.table(heads, ([method, *(number(figures, key) for key in keys)] for method, figures in found.get("rows", [])))
    return made


def encoder(results):
    found = results.of("bench encoder")
    if not found:
        return None
    made = Section("Encoders")
    made.text(
        "Times are from a converted picture to its first and to its last slice. PSNR is that of luma, against the "
        "picture before its conversion."
    )
    columns = (
        ("first slice p50, ms", "first_slice.p50", 2, 1.0),
        ("last slice p50, ms", "last_slice.p50", 2, 1.0),
        ("last slice p99, ms", "last_slice.p99", 2, 1.0),
        ("picture p99, kbit", "bits.p99", 1, 1e-3),
        ("Mb/s", "mbps", 2, 1.0),
        ("PSNR, dB", "psnr.mean", 1, 1.0),
    )
    heads = ["encoder", "options", "size", *(head for head, *_ in columns)]
    made.table(
        heads,
        (
            [
                one.get("encoder"),
                " ".join(f"{name}={setting}" for name, setting in one.get("options", [])),
                one.get("size"),
                *(number(one.data, path, digits, scale) for _, path, digits, scale in columns),
            ]
            for one in found
        ),
    )
    return made


def prediction(results):
    found = results.first("bench prediction")
    if found is None:
        return None
    made = Section("Head pose prediction")
    rows = found.get("rows", [])
    for unit, label in (("degrees", "degrees"), ("millimetres", "mm")):
        ways = list(dict.fromkeys(row["velocity"] for row in rows))
        series = [
            (
                f"velocity: {way}",
                [
                    (row["horizon_ms"], row[unit]["p50"], row[unit]["p50"], row[unit]["p95"])
                    for row in rows
                    if row["velocity"] == way
                ],
            )
            for way in ways
        ]
        title = f"Error of the predicted pose, median to p95, {label}"
        made.plot(f"prediction {unit}", plots.lines(title, "prediction horizon, ms", f"error, {label}", series))
    heads = ["horizon, ms", "velocity", "p50, °", "p95, °", "p99, °", "p50, mm", "p95, mm", "p99, mm"]
    made.table(
        heads,
        (
            [row["horizon_ms"], row["velocity"]]
            + [number(row, f"{unit}/{key}") for unit in ("degrees", "millimetres") for key in ("p50", "p95", "p99")]
            for row in rows
        ),
    )
    return made


def reprojection(results):
    found = results.first("bench reprojection")
    if found is None:
        return None
    made = Section("Reprojection")
    rows = found.get("round_trips", [])
    methods = {"as drawn": [(row["round_trip_ms"], row.get("without")) for row in rows]}
    for row in rows:
        for one in row.get("re_aimed", []):
            methods.setdefault(f"reprojected, {one['with']}", []).append((row["round_trip_ms"], one.get("degrees")))
    series = [
        (name, [(ms, it["p50"], it["p50"], it["p95"]) for ms, it in points if it]) for name, points in methods.items()
    ]
    made.plot(
        "reprojection",
        plots.lines("Angular error while the head turns, median to p95", "round trip, ms", "error, degrees", series),
    )
    made.table(
        ["round trip, ms", "method", "pictures", "p50, °", "p95, °", "max, °"],
        (
            (
                [
                    ms,
                    name,
                    *(number(it, key, 0 if key == "pictures" else 2) for key in ("pictures", "p50", "p95", "max")),
                ]
                if it
                else [ms, name, *[ABSENT] * 4]
            )
            for name, points in methods.items()
            for ms, it in points
        ),
    )
    return made
