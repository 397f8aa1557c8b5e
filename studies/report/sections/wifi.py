"""`lab wifi`: the paper's simulations, topologies, one network, a sweep, or a replayed capture."""

import re

from .. import plots
from ..blocks import ABSENT, Section, number
from ..estimate import Estimate
from ..papers import unity

# The paper's figures as box plots: number, title, axis label, cases, quantity, the quantile that is marked in addition,
# the paper's means.
FIGURES = (
    (
        "19",
        "packet delay from its arrival in the access point's queue",
        "delay, ms",
        "rates",
        "packets_from_queue",
        "p9999",
        tuple(unity.PACKET_MS.values()),
    ),
    ("20", "packets delivered per A-MPDU", "packets", "rates", "delivered", "p9999", tuple(unity.AMPDU.values())),
    (
        "21",
        "packet delay from the server, 60 frames/s",
        "delay, ms",
        "intervals",
        "packets",
        "p99",
        unity.PACKET_BY_INTERVAL_MS,
    ),
    ("22", "frame delay, 60 frames/s", "delay, ms", "intervals", "frames", "p99", unity.FRAME_BY_INTERVAL_MS),
)
SHARES = ("p5", "p25", "p50", "p75", "p95")
# The quantities of a sweep that have a plot, and their axis labels.
SWEPT = {
    "packet_ms": "packet delay from the server, ms",
    "packet_p99_ms": "packet delay, p99, ms",
    "frame_ms": "frame delay, ms",
    "frame_p99_ms": "frame delay, p99, ms",
    "airtime_down_percent": "airtime of the access point, %",
    "broken_frames_percent": "frames with a lost packet, %",
}


def _estimate(found):
    return Estimate(found["mean"], found.get("ci95")) if found else None


def _paper(made, result):
    rows = result.get("paper/rows", [])
    made.table(
        ["figure", "quantity", "the paper", "our model", "unit", "deviation"],
        (
            [
                r["place"],
                r["what"],
                f"{r['paper']:g}",
                _estimate(r).text(3),
                r["unit"],
                f"{100 * (r['mean'] / r['paper'] - 1):+.1f} %",
            ]
            for r in rows
        ),
        "The paper's figures",
    )
    for number, title, unit, group, quantity, tail, means in FIGURES:
        cases = []
        for case in result.get(f"paper/{group}", []):
            spread = case.get("spreads", {}).get(quantity)
            if spread:
                cases.append((case["name"], [spread[share] for share in SHARES], _estimate(spread), spread[tail]))
        shown = {"p9999": "99.99 %", "p99": "99 %"}[tail]
        made.plot(f"figure {number}", plots.boxes(f"Figure {number}: {title}", unit, cases, shown, means[: len(cases)]))
    made.table(
        ["figure", "quantity", "the paper", "our model", "unit"],
        (
            [r["place"], r["what"], f"{r['paper']:g}", _estimate(r).text(2), r["unit"]]
            for r in result.get("paper/contradictions", [])
        ),
        "Contradictions in the paper, with the model's result for each interpretation",
    )


def _topology(made, result):
    def mean(case, key, digits):
        found = _estimate(case.get(key))
        return found.text(digits) if found else ABSENT

    made.table(
        ["topology", "format", "frame, ms", "p50", "p99", "feedback, p99, ms", "airtime, %"],
        (
            [
                case["topology"],
                case["format"],
                mean(case, "frame_ms", 2),
                number(case, "frame_ms/p50"),
                number(case, "frame_ms/p99"),
                number(case, "feedback_ms/p99"),
                mean(case, "airtime_percent", 1),
            ]
            for case in result.get("topology/cases", [])
        ),
        "Host and mobile device as peers, or over a router",
    )
    made.table(
        ["place", "quantity", "the OpenUVR paper", "our model", "unit"],
        (
            [r["place"], r["what"], f"{r['paper']:g}", _estimate(r).text(2), r["unit"]]
            for r in result.get("topology/rows", [])
        ),
        "The OpenUVR paper's figures; the model was not fitted to them",
    )


def _number(text):
    """The number in a text such as 4, 5.56ms, 10% or 50M: times in ms, rates in Mb/s. None for any other text."""
    found = re.fullmatch(r"([0-9.]+)(%|ms|M|s|G|us|k|ns|)", text)
    if not found:
        return None
    return float(found[1]) * {"s": 1e3, "G": 1e3, "us": 1e-3, "k": 1e-3, "ns": 1e-6}.get(found[2], 1.0)


def _sweep(made, result):
    varied, cases = result.get("varied", []), result.get("cases", [])
    axis = varied[0]
    numbers = [_number(text) for text in axis["values"]]
    categories = axis["values"] if None in numbers else None
    places = dict(zip(axis["values"], range(len(numbers)) if categories else numbers, strict=True))
    lines = varied[1]["values"] if len(varied) > 1 else [None]
    for quantity, label in SWEPT.items():
        series = []
        for line in lines:
            points = []
            for case in cases:
                found = _estimate(case["found"].get(quantity))
                if found and (line is None or case["values"][1] == line):
                    points.append((places[case["values"][0]], found.mean, found.low, found.high))
            series.append((label if line is None else f"{varied[1]['name']}={line}", points))
        title = f"{label.rsplit(', ', 1)[0].capitalize()} by {axis['name']}"
        x = f"{axis['name']} ({'case' if categories else 'as given'})"
        made.plot(f"sweep {quantity}", plots.lines(title, x, label, series, categories=categories))
    heads = [word["name"] for word in varied] + list(SWEPT.values())
    made.table(
        heads,
        (
            [*case["values"], *(e.text(3) if (e := _estimate(case["found"].get(q))) else ABSENT for q in SWEPT)]
            for case in cases
        ),
    )


def _values(made, result):
    made.table(
        ["quantity", "mean"], ([name, _estimate(found).text(3)] for name, found in result.get("values", {}).items())
    )
    table = result.table("delays.csv")
    if not table.empty:
        delays = sorted(table["delay_from_server_ns"] / 1e6)
        every = max(1, len(delays) // 400)
        points = [(ms, 100 * (place + 1) / len(delays)) for place, ms in enumerate(delays)]
        made.plot(
            "replayed delays",
            plots.shares("Packet delay", "delay from the server, ms", [("packets", points[::every] + points[-1:])]),
        )


def section(results):
    found = results.of("lab wifi")
    if not found:
        return None
    made = Section("Wi-Fi in the model")
    for result in found:
        made.text(
            f"{result.get('runs')} runs of {result.get('seconds'):g} simulated s per case; {result.get('words', '')}"
        )
        if result.get("paper"):
            _paper(made, result)
        elif result.get("topology"):
            _topology(made, result)
        elif result.get("varied"):
            _sweep(made, result)
        else:
            _values(made, result)
    return made
