"""`bench sync`, `bench capture`, `bench slices` and `bench peers`: configurations run in turns."""

from .. import estimate, plots
from ..blocks import ABSENT, Section, number, percent
from ..blocks import estimate as cell
from ..papers.openuvr import FIGURE_4_MS, OPENUVR_MS
from ..results import value


def sync(results):
    found = results.first("bench sync")
    if found is None:
        return None
    rows = found.get("ways", [])
    made = Section("An application that waits for the host, and an application that does not")
    made.plot(
        "sync",
        plots.bars(
            "Latency", "drawn to visible, p50, ms", [(r["name"], estimate.of_runs(r["p50_ms"]), None) for r in rows]
        ),
    )
    heads = ["configuration", "", "p50, ms", "p99, ms", "drawn, frames/s", "cores", "luma PSNR p50, dB"]
    made.table(
        heads,
        (
            [
                r["name"],
                r["what"],
                *(cell(r, key) for key in ("p50_ms", "p99_ms", "drawn_fps", "cores")),
                number(r, "psnr_db/p50", 1),
            ]
            for r in rows
        ),
    )
    return made


def capture(results):
    found = results.first("bench capture")
    if found is None:
        return None
    made = Section("Capture methods: latency for the viewer, and cost for the application")
    keys = ("p50_ms", "p99_ms", "cores", "frame_p50_ms", "unheld_fps")
    heads = [
        "method",
        "",
        "drawn to visible p50, ms",
        "p99, ms",
        "cores",
        "the application's frame p50, ms",
        "the application's frames/s without a limit",
    ]
    rows = found.get("ways", [])
    made.table(heads, ([r["name"], r["what"], *(cell(r, key) for key in keys)] for r in rows))
    keys = (("host_cores", 2, 1), ("display_cores", 2, 1), ("still_cores", 2, 100), ("reaction_ms", 2, 1))
    heads = ["method", "host, cores", "the scene's display, cores", "host, still picture, % of a core", "key to effect, ms"]
    streamed = (r for r in rows if r.get("cores"))
    made.table(heads, ([r["name"], *(cell(r, key, digits, scale) for key, digits, scale in keys)] for r in streamed))
    return made


def slices(results):
    found = results.first("bench slices")
    if found is None:
        return None
    made = Section("Pictures displayed slice by slice, or as a whole")
    heads = [
        "configuration",
        "",
        "first rows visible p50, ms",
        "p99, ms",
        "last rows visible p50, ms",
        "p99, ms",
        "rows of two frames visible, % of the time",
        "client, cores",
        "the client's display, cores",
    ]
    times = ("top_p50_ms", "top_p99_ms", "bottom_p50_ms", "bottom_p99_ms")
    made.table(
        heads,
        (
            [
                r["name"],
                r["what"],
                *(cell(r, key) for key in times),
                cell(r, "mixed", 1, 100),
                *(cell(r, key) for key in ("client_cores", "display_cores")),
            ]
            for r in found.get("ways", [])
        ),
    )
    made.text(
        "Times are from drawn to visible in the client's window. "
        "Target: with slices, the first rows are visible 2 ms earlier."
    )
    return made


LINKS = (("Loopback device", "direct"), ("1 % loss, 2 ms of delay each way", "loss"))
HEADS = [
    "program",
    "drawn to visible p50, ms",
    "p99, ms",
    "seen, frames/s",
    "intact",
    "both ways, Mb/s",
    "sender, cores",
    "receiver, cores",
    "luma PSNR p50, dB",
    "key to effect p50, ms",
    "",
]


def _peer(way, figures):
    if not figures:
        why = next((f"{key}: {way[key]}" for key in ("skipped", "failed") if way.get(key)), "not measured")
        return [way["name"], *[ABSENT] * 9, why]
    return [
        way["name"],
        cell(figures, "p50_ms"),
        cell(figures, "p99_ms"),
        cell(figures, "seen_fps", 1),
        percent(figures, "intact", 0),
        cell(figures, "wire_mbps"),
        cell(figures, "sender_cores"),
        cell(figures, "receiver_cores"),
        number(figures, "psnr_db/p50", 1),
        number(figures, "reaction_ms/p50", 1),
        "",
    ]


def peers(results):
    found = results.first("bench peers")
    if found is None:
        return None
    ways = found.get("ways", [])
    made = Section("Beside other programs")
    rows = [(way["name"], estimate.of_runs(value(way, "direct/p50_ms")), None) for way in ways]
    made.plot("peers", plots.bars("Latency on the loopback device", "drawn to visible, p50, ms", rows))
    paper = ", ".join(f"{name} {ms:g} ms" for name, ms in FIGURE_4_MS.items())
    made.text(
        f"Figure 4 of OpenUVR's paper shows other products over Wi-Fi: {paper}. OpenUVR itself takes {OPENUVR_MS} ms."
    )
    floor = found.get("floor")
    if floor:
        made.text(
            f"The floor, which is the latency without a stream, is {number(floor, 'p50_ms/median', 1)} ms (p50) and "
            f"{number(floor, 'p99_ms/median', 1)} ms (p99)."
        )
    for title, link in LINKS:
        shown = [way for way in ways if way.get(link) or link == "direct"]
        made.table(HEADS, (_peer(way, way.get(link)) for way in shown), title)
    made.table(
        ["program", "", "versions", "sender and receiver"],
        (
            [w["name"], w.get("what", ""), ", ".join(w.get("versions", [])), " | ".join(w.get("commands", []))]
            for w in ways
        ),
        "Command lines",
    )
    return made
