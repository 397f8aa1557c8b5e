"""`lab traffic`: a captured stream beside the Unity Render Streaming study."""

from .. import plots
from ..blocks import ABSENT, Section, number
from ..papers import unity
from ..results import value

# The drawn distributions: quantity, title, axis label, scale of the unit, and the key of the study's value by frame
# rate.
PLOTS = (
    ("packet_interval_ns", "From packet to packet, all streams (figure 6)", "interval, ms", 1e6, None),
    ("stream_interval_ns", "From packet to packet, by stream (figure 8)", "interval, ms", 1e6, None),
    ("packet_bytes", "Size of video packets (figure 9a)", "bytes on Ethernet", 1, None),
    ("frame_bytes", "Size of frames (figure 10a)", "frame, kB", 1e3, "frame_kb"),
    ("frame_interval_ns", "From frame to frame (figure 10b)", "interval, ms", 1e6, None),
    ("batch_interval_ns", "From batch to batch (section 6.3)", "interval, ms", 1e6, None),
    ("frame_batches", "Batches per frame (figure 12)", "batches", 1, "batches"),
    ("jitter_ns", "Jitter (figure 15b)", "jitter, ms", 1e6, "jitter"),
    ("assembly_ns", "Time from a frame's first packet to its last (figure 15c)", "time, ms", 1e6, "assembly"),
    ("packets_at_once", "Packets that arrive at once (figure 18)", "packets", 1, "at_once"),
    ("delay_ns", "Delay between server and client", "delay, ms", 1e6, None),
)


def _references(quantity, key, rate):
    if quantity == "batch_interval_ns":
        return [(unity.INTERVAL_MS, f"study: {unity.INTERVAL_MS} ms")]
    if quantity == "packet_bytes":
        mean = unity.TABLE_3["down", "RTP video"][0]
        return [(mean, f"study, mean: {mean:g} bytes")]
    if quantity == "frame_interval_ns" and rate:
        return [(1e3 / rate, f"study, mean: {1e3 / rate:.1f} ms")]
    if key and rate:
        return [(unity.RATES[rate][key], f"study, mean: {unity.RATES[rate][key]:g}")]
    return []


def _curves(table, quantity, scale):
    """The curves of a quantity, one per stream: (name, [(value, percent)])."""
    for name, rows in table[table["quantity"] == quantity].groupby("stream", sort=False):
        rows = rows.sort_values("value")
        shares = 100 * rows["count"].cumsum() / rows["count"].sum()
        points = list(zip(rows["value"] / scale, shares, strict=True))
        every = max(1, len(points) // 400)
        yield name, points[::every] + points[-1:]


def _distributions(made, result, end, prefix):
    file_name = f"{prefix}distributions.csv"
    table = result.table(file_name)
    if table.empty:
        return
    rate = unity.nominal_rate(result)
    for quantity, title, x, scale, key in PLOTS:
        curves = list(_curves(table, quantity, scale))
        figure = plots.shares(f"{title}, {end}" if end else title, x, curves, _references(quantity, key, rate))
        made.plot(f"traffic {prefix}{quantity}", figure)


def _stream(end, stream):
    study = unity.TABLE_3.get((stream.get("way"), stream.get("name")), (None, None, None))
    return [
        end,
        stream.get("way") or ABSENT,
        stream.get("name"),
        number(stream, "bytes/count", 0),
        number(stream, "bytes/mean"),
        number({"v": study[0]}, "v"),
        number(stream, "interval_ns/mean", 2, 1e-6),
        number({"v": study[1]}, "v"),
        number(stream, "mbps", 4),
        number({"v": study[2]}, "v", 4),
        number(stream, "sequence/lost", 0),
    ]


HEADS = [
    "captured at",
    "direction",
    "stream",
    "packets",
    "bytes, mean",
    "study",
    "interval, ms, mean",
    "study",
    "Mb/s",
    "study",
    "lost",
]


def section(results):
    found = results.of("lab traffic")
    if not found:
        return None
    made = Section("Captured traffic")
    for result in found:
        captures = result.get("captures", [])
        made.table(
            HEADS,
            (_stream(one.get("end") or ABSENT, s) for one in captures for s in one.get("streams", [])),
            "Streams (table 3)",
        )
        for one in captures:
            made.text(
                f"{one.get('file')}: {one.get('seconds', 0):.1f} s, {value(one, 'account/datagrams', 0)} datagrams."
            )
            if one.get("broken"):
                made.text(f"Incomplete: {one['broken']}.")
        rows = unity.compare(result)
        made.table(
            ["figure", "quantity", "study", "captured", "unit", "tolerance"],
            (
                [r.place, r.what, f"{r.study:g}", r.ours.text(3), r.unit, "inside" if r.is_within else "outside"]
                for r in rows
            ),
            "Comparison with the study",
        )
        reason = unity.doubt(result)
        if reason:
            made.text(f"This capture decides nothing: {reason}.")
        for one in captures:
            end = one.get("end") or ""
            _distributions(made, result, f"at the {end}" if end else "", f"{end}-" if len(captures) > 1 else "")
        _distributions(made, result, "", "joined-")
    made.text("The study's programs were Unity and Chrome; other programs send differently.")
    return made
