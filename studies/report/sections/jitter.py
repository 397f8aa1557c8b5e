"""`lab jitter`: scheduling latency by runtime, beside the SEARIS slides."""

from .. import plots
from ..blocks import ABSENT, Section, number, percent
from ..papers import searis
from ..results import value

RUNTIMES = {
    "pthread": "C++ threads",
    "caf": "C++ actors (CAF)",
    "std": "Rust threads",
    "tokio": "Rust tasks (tokio)",
    "java": "Java threads",
    "pekko": "Pekko actors",
}
HEADS = [
    "cell",
    "kernel",
    "samples",
    "median, µs",
    "99 %, µs",
    "99.9 %, µs",
    "99.99 %, µs",
    "max, µs",
    "from intended time: 99 %, µs",
    "from intended time: max, µs",
    "outliers in pauses",
    "by chance",
    "other cores",
]


def _row(cell):
    us = 1e-3
    kernel = "RT" if value(cell, "conditions/real_time_kernel") else "vanilla"
    return [
        cell["cell"],
        kernel,
        number(cell, "analysis/sent/count", 0),
        *(number(cell, f"analysis/sent/{key}", 2, us) for key in ("median", "p99", "p999", "p9999", "max")),
        *(number(cell, f"analysis/intended/{key}", 2, us) for key in ("p99", "max")),
        percent(cell, "analysis/outliers/0/in_pauses", 0),
        percent(cell, "analysis/outliers/0/by_chance", 0),
        number(cell, "other_cores"),
    ]


def _slides(results):
    """The slides' runtimes, and our cells for both patterns that the slides may have used."""
    for key, paper in searis.RUNTIMES_US.items():
        rt, vanilla = zip(*(paper[what] for what in ("max", "mean", "median")), strict=True)
        yield [paper["name"], "slides, vanilla", *(f"{us:g}" for us in vanilla)]
        yield [paper["name"], "slides, RT", *(f"{us:g}" for us in rt)]
        runtime, _, collector = key.partition("/")
        for pattern in ("ping-pong", "flood"):
            collectors = [f"/{collector}"] if collector else ["", "/g1"]
            for kernel in (False, True):
                names = [f"{runtime}/{pattern}/other{one}" for one in collectors]
                ours = next((one for name in names if (one := searis.cell(results, name, kernel))), None)
                if ours:
                    place = f"ours, {pattern}, {'RT' if kernel else 'vanilla'}"
                    yield ["", place, *(f"{searis.micros(ours, what):.1f}" for what in ("max", "mean", "median"))]


def _tails(made, result):
    """One plot per pattern, policy and reference time, and further plots that compare the collectors."""
    table = result.table("tails.csv")
    if table.empty:
        return
    groups = {}
    for (cell, clock), rows in table.groupby(["cell", "clock"], sort=False):
        runtime, pattern, policy, *collector = cell.split("/")
        points = list(zip(rows["latency_us"], rows["share_longer"], strict=True))
        if not collector or collector == ["g1"]:
            groups.setdefault((pattern, policy, clock, ""), []).append((RUNTIMES.get(runtime, runtime), points))
        if runtime == "pekko" and clock == "sent":
            groups.setdefault((pattern, policy, clock, "collectors "), []).append(
                (collector[0] if collector else "", points)
            )
    for (pattern, policy, clock, of), series in groups.items():
        if clock == "intended" and pattern != "paced":
            continue
        reference = []
        if pattern == "ping-pong" and policy == "other" and not of:
            reference = [
                (paper["median"][1], f"slides, median: {paper['name']} {paper['median'][1]:g} µs")
                for paper in searis.RUNTIMES_US.values()
            ]
        title = f"{of.capitalize()}{pattern}, SCHED_{policy.upper()}: received − {clock}"
        made.plot(f"tails {of}{pattern} {policy} {clock}", plots.tails(title, series, reference))


def _outliers(made, result):
    dots, pauses = result.table("outliers.csv"), result.table("pauses.csv")
    if dots.empty:
        return
    for cell, rows in dots.groupby("cell", sort=False):
        if "/paced/" in cell:
            continue
        mine = pauses[pauses["cell"] == cell] if not pauses.empty else pauses
        spans = [] if mine.empty else list(zip(mine["from_share"], mine["to_share"], mine["full"], strict=True))
        one = searis.cell_of(result, cell)
        inside = percent(one, "analysis/outliers/0/in_pauses", 0)
        title = f"{cell}: outliers over time" + (f", {inside} in pauses" if inside != ABSENT else "")
        made.plot(
            f"outliers {cell}",
            plots.scatter_over_pauses(title, list(zip(rows["share_of_test"], rows["latency_us"], strict=True)), spans),
        )


def samples(results):
    """`lab jitter analyse`: single sample files."""
    found = results.of("lab samples")
    if not found:
        return None
    made = Section("Samples of message latency")
    for result in found:
        rows = [dict(one, cell=one["file"]) for one in result.get("files", [])]
        made.table(HEADS, map(_row, rows))
        table = result.table("tails.csv")
        if not table.empty:
            curves = [
                (f"{cell}: received − {clock}", list(zip(rows["latency_us"], rows["share_longer"], strict=True)))
                for (cell, clock), rows in table.groupby(["cell", "clock"], sort=False)
            ]
            made.plot("samples tails", plots.tails("Complementary distribution", curves))
    return made


def section(results):
    found = results.of("lab jitter")
    if not found:
        return None
    made = Section("Scheduling latency by runtime")
    made.table(
        ["runtime", "", "max, µs", "mean, µs", "median, µs"],
        _slides(results),
        "Comparison with the slides, under SCHED_OTHER",
    )
    for result in found:
        made.table(HEADS, (_row(cell) for cell in result.get("cells", [])), "All cells")
        _tails(made, result)
        _outliers(made, result)
    made.text(
        "Ping-pong and flood have no intended send times, so they do not count the delay of late senders (coordinated "
        "omission); paced cells count this delay."
    )
    return made
