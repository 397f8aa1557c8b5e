"""`bench web`: browsers, observers and video players on the same encode."""

from ..blocks import Cell, Section, goal, number
from ..blocks import estimate as cell

COLUMNS = (
    "p50_ms",
    "p99_ms",
    "drawn_fps",
    "decoded_fps",
    "presented_fps",
    "handed_fps",
    "complete_fps",
    "freeze_ms",
    "host_cores",
    "browser_cores",
    "sent_mbps",
)
HEADS = [
    "browser",
    "drawn to compositor p50, ms",
    "p99, ms",
    "drawn/s",
    "decoded/s",
    "passed to the compositor/s",
    "reported as handed over/s",
    "complete/s",
    "longest freeze, ms",
    "host, cores",
    "browser, cores",
    "sent, Mb/s",
]


def section(results):
    web = results.first("bench web")
    if web is None:
        return None
    made = Section("Browsers and video players on the same encode")
    if web.get("skipped"):
        made.table(["", ""], [["not measured", Cell(web.get("skipped"), "open")]])
        return made
    made.table(["goal", "measured", "bound", ""], (goal(v, web) for v in web.get("verdicts", [])))
    made.table(HEADS, ([b["name"], *(cell(b, key) for key in COLUMNS)] for b in web.get("browsers", [])))
    for browser in web.get("browsers", []):
        made.table(
            ["stage", "mean, ms", "p50, ms", "p90, ms", "p99, ms"],
            (
                [f"{s['from']} to {s['to']}", *(number(s, f"ms/{key}") for key in ("mean", "p50", "p90", "p99"))]
                for s in browser.get("steps", [])
            ),
            f"{browser['name']}, by stage",
        )
    made.table(
        [
            "our client while",
            "drawn to visible p50, ms",
            "p99, ms",
            "host, cores",
            "encoders opened",
            "frames without a record",
        ],
        (
            [
                w.get("what"),
                *(cell(w, key) for key in ("p50_ms", "p99_ms", "host_cores")),
                w.get("encoders_opened"),
                w.get("unaccounted"),
            ]
            for w in web.get("beside", [])
        ),
    )
    made.table(
        ["video player", "drawn to visible p50, ms", "p99, ms", "seen, frames/s"],
        (
            [p.get("what"), number(p, "latency_ms/p50", 1), number(p, "latency_ms/p99", 1), number(p, "seen_fps", 1)]
            for p in web.get("players", [])
        ),
    )
    made.text(f"{web.get('version', 'The browser')}, without a window and a GPU, on the same machine as the host.")
    return made
