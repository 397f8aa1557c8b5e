"""`bench link --aqm`: rate controllers beside competing flows, in the simulator."""

from .. import plots
from ..blocks import Section, goal, number
from ..results import value

# The plotted columns of the time series: the column, the plot's title, and the label of its y axis.
SERIES = (
    ("video_mbps", "Rate of the video", "rate, Mb/s"),
    ("latency_ms", "Slowest frame in each 100 ms", "capture to last datagram, ms"),
    ("queue_ms", "Queue of the bottleneck", "queue, ms"),
)
GOAL_HEADS = ("figure", "measured", "goal", "verdict")


def case(run):
    """The case of a run, without its controller."""
    flows = run.get("competitors") or []
    return f"{run.get('aqm')}, {' + '.join(flows) if flows else 'alone'}"


def section(results):
    found = results.of("bench link_aqm")
    if not found:
        return None
    made = Section("Rate controllers beside competing flows")
    for result in found:
        runs = result.get("runs", [])
        made.text(
            f"Simulated: {number(result.data, 'link_mbps', 0)} Mb/s, {number(result.data, 'one_way_ms', 0)} ms in each "
            f"direction, a queue of {number(result.data, 'queue_ms', 0)} ms, {number(result.data, 'seconds', 0)} s per "
            f"run, seed {result.get('seed')}. The share is relative to the fair rate. \"p99 of the path\" is the p99 "
            "of a stream with the fair rate and without competing flows."
        )
        made.table(GOAL_HEADS, (goal(verdict, result) for verdict in result.get("verdicts", [])), "Goals")
        figures(made, runs)
        for name in dict.fromkeys(case(run) for run in runs):
            time_series(made, result, name, [run for run in runs if case(run) == name])
    made.text("`openuvr bench link --help` describes the options; docs/studies/l4s.md describes the models.")
    return made


def figures(made, runs):
    paths = (
        ("p50_ms", 1),
        ("p99_ms", 1),
        ("path_p99_ms", 1),
        ("complete_per_second", 1),
        ("mbps", 2),
        ("fair_share", 2),
        ("jain", 2),
        ("used", 2),
        ("marked", 0),
        ("dropped", 0),
    )
    heads = [
        "case",
        "controller",
        "p50, ms",
        "p99, ms",
        "p99 of the path, ms",
        "complete frames/s",
        "Mb/s",
        "share",
        "Jain's index",
        "link used",
        "marks",
        "drops",
    ]
    made.table(
        heads,
        ([case(run), run.get("controller"), *(number(run, path, digits) for path, digits in paths)] for run in runs),
        "Figures",
    )


def time_series(made, result, name, runs):
    """The curves of one case, one for each controller."""
    tables = [(run.get("controller"), result.table(run["series"])) for run in runs if value(run, "series")]
    tables = [(controller, table) for controller, table in tables if not table.empty]
    for column, title, axis in SERIES:
        curves = [
            (controller, list(zip(table["seconds"], table[column], strict=True))) for controller, table in tables
        ]
        made.plot(f"contest {name} {column}", plots.over_time(f"{title}: {name}", axis, curves))
