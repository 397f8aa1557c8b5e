"""Draws plots with units on the axes, intervals at the means, the legend beside the data, and complete curves."""

import base64
import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

# The colours of Okabe and Ito, which are distinct for all common kinds of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4B4B4B", "#A6761D")
PAPER = "#000000"
MARKERS = "osD^vP*X"
DASHES = ((0, (5, 3)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (9, 4)))

plt.rcParams.update(
    {
        "font.size": 10,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": plt.cycler(color=COLOURS),
        "figure.constrained_layout.use": True,
        "figure.max_open_warning": 0,
        "svg.fonttype": "none",
        "svg.hashsalt": "openuvr",
    }
)


def axes(title, x, y, height=3.8, width=9.0):
    """A figure with one pair of axes and their labels, which contain the unit of a quantity that has one."""
    figure, ax = plt.subplots(figsize=(width, height))
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    return figure, ax


def legend(ax):
    """Draws the legend beside the axes, so that it covers no data. Bars without other series get no legend."""
    handles, labels = ax.get_legend_handles_labels()
    if [label for label in labels if label != "here"]:
        ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)


def references(ax, known):
    """Draws lines at a paper's values, (value, label) each, behind the curves."""
    for place, (number, label) in enumerate(known):
        ax.axvline(number, color=PAPER, linestyle=DASHES[place % len(DASHES)], linewidth=1.2, zorder=1, label=label)


def plain_log(axis, minor=False):
    """Labels a logarithmic axis with plain numbers, not powers of ten; with `minor`, also between the decades."""
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(FuncFormatter(lambda number, _: f"{number:g}") if minor else NullFormatter())


def shares(title, x, curves, known=(), log=False):
    """Cumulative distributions: (name, [(value, percent)]) each, drawn up to 100 %."""
    curves = [(name, points) for name, points in curves if points]
    if not curves:
        return None
    figure, ax = axes(title, x, "share of values not above it, %")
    for number, (name, points) in enumerate(curves):
        xs, ys = zip(*sorted(points), strict=True)
        ax.step(
            (xs[0], *xs),
            (0, *ys),
            where="post",
            label=name,
            color=COLOURS[number % len(COLOURS)],
            linewidth=1.6,
            zorder=3,
        )
    references(ax, known)
    ends = [point for _, points in curves for point, _ in points if point > 0]
    if log or (ends and max(ends) > 10 * sorted(ends)[len(ends) // 2]):
        if min(point for _, points in curves for point, _ in points) > 0:
            ax.set_xscale("log")
        else:
            ax.set_xscale("symlog", linthresh=max(min(ends, default=1.0), 1e-3))
        low, high = ax.get_xlim()
        plain_log(ax.xaxis, minor=low > 0 and high / low < 20)
    ax.set_ylim(-2, 102)
    legend(ax)
    return figure


def lines(title, x, y, series, paper=(), categories=None):
    """Means over a quantity: (name, [(x, mean, low or None, high or None)]); `paper`: (name, [(x, y)])."""
    series = [(name, points) for name, points in series if points]
    if not series:
        return None
    figure, ax = axes(title, x, y)
    every = [point[0] for _, points in series for point in points]
    # Shift the series against each other, because intervals of several series at one position would hide each other.
    apart = (
        (max(every) - min(every) or 1) * 0.008
        if any(point[2] is not None for _, points in series for point in points)
        else 0
    )
    for number, (name, points) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        xs, means, lows, highs = zip(*sorted(points, key=lambda p: p[0]), strict=True)
        xs = [one + (number - (len(series) - 1) / 2) * apart for one in xs]
        ax.plot(xs, means, label=name, color=colour, marker=MARKERS[number % len(MARKERS)], markersize=5, zorder=3)
        below = [mean - low if low is not None else 0 for mean, low in zip(means, lows, strict=True)]
        above = [high - mean if high is not None else 0 for mean, high in zip(means, highs, strict=True)]
        if any(below) or any(above):
            ax.errorbar(xs, means, yerr=[below, above], color=colour, linestyle="none", capsize=3, zorder=2)
    for name, points in paper:
        xs, ys = zip(*sorted(points), strict=True)
        ax.plot(xs, ys, color=PAPER, linestyle=(0, (5, 3)), marker="_", markersize=12, label=name, zorder=4)
    if categories:
        ax.set_xticks(range(len(categories)), categories)
    ax.margins(0.05)
    legend(ax)
    return figure


def over_time(title, y, curves):
    """Curves over time without markers. `curves`: (name, [(second, value)]). None without points."""
    curves = [(name, points) for name, points in curves if points]
    if not curves:
        return None
    figure, ax = axes(title, "time, s", y)
    for number, (name, points) in enumerate(curves):
        xs, ys = zip(*points, strict=True)
        ax.plot(xs, ys, label=name, color=COLOURS[number % len(COLOURS)], linewidth=1.2, zorder=3)
    ax.set_ylim(bottom=0)
    ax.margins(x=0.01)
    legend(ax)
    return figure


def bars(title, x, rows, paper="paper"):
    """Horizontal bars: (name, Estimate, the paper's value or None), the first at the top."""
    rows = [row for row in rows if row[1] is not None]
    if not rows:
        return None
    figure, ax = axes(title, x, "", height=1.3 + 0.36 * len(rows))
    places = range(len(rows))
    ax.barh(places, [row[1].mean for row in rows], color=COLOURS[0], height=0.6, label="here", zorder=2)
    with_interval = [(place, row[1]) for place, row in zip(places, rows, strict=True) if row[1].half is not None]
    if with_interval:
        at, found = zip(*with_interval, strict=True)
        ax.errorbar(
            [one.mean for one in found],
            at,
            xerr=[one.half for one in found],
            color="#222222",
            linestyle="none",
            capsize=3,
            label="95 % interval",
            zorder=3,
        )
    known = [(place, row[2]) for place, row in zip(places, rows, strict=True) if row[2] is not None]
    if known:
        at, values = zip(*known, strict=True)
        ax.scatter(values, at, marker="|", s=220, linewidths=2.5, color=COLOURS[1], label=paper, zorder=4)
    ax.set_yticks(places, [row[0] for row in rows])
    ax.set_ylabel("case")
    ax.invert_yaxis()
    legend(ax)
    return figure


def stacked(title, x, rows):
    """Horizontal bars of parts that add up: (name, [(part, value)]); negative parts count as 0."""
    rows = [row for row in rows if row[1]]
    if not rows:
        return None
    names = list(dict.fromkeys(name for _, parts in rows for name, _ in parts))
    figure, ax = axes(title, x, "case", height=1.4 + 0.5 * len(rows))
    for place, (_, parts) in enumerate(rows):
        left = 0.0
        for name, number in parts:
            width = max(number, 0.0)
            ax.barh(place, width, left=left, height=0.6, color=COLOURS[names.index(name) % len(COLOURS)], zorder=2)
            left += width
        ax.text(left, place, f" {left:.1f}", va="center")
    for number, name in enumerate(names):
        ax.barh(0, 0, color=COLOURS[number % len(COLOURS)], label=name)
    ax.set_yticks(range(len(rows)), [row[0] for row in rows])
    ax.invert_yaxis()
    ax.margins(x=0.1)
    legend(ax)
    return figure


def boxes(title, y, cases, tail, paper=()):
    """Boxes of (name, [p5, p25, p50, p75, p95], mean Estimate, tail value); `paper`: the paper's means."""
    if not cases:
        return None
    figure, ax = axes(title, "case", y)
    stats = [
        {"label": name, "whislo": q[0], "q1": q[1], "med": q[2], "q3": q[3], "whishi": q[4], "fliers": []}
        for name, q, *_ in cases
    ]
    ax.bxp(
        stats, positions=range(len(cases)), widths=0.5, showfliers=False, medianprops={"color": COLOURS[0]}, zorder=2
    )
    for place, (_, _, mean, _) in enumerate(cases):
        ax.errorbar(
            [place],
            [mean.mean],
            yerr=[mean.half or 0.0],
            fmt="o",
            color=COLOURS[0],
            capsize=4,
            zorder=4,
            label="mean, 95 % interval" if place == 0 else None,
        )
    ax.scatter(range(len(cases)), [case[3] for case in cases], marker="x", color=COLOURS[2], label=tail, zorder=3)
    if paper:
        ax.scatter(
            range(len(paper)),
            paper,
            marker="_",
            s=500,
            linewidths=2.5,
            color=COLOURS[1],
            label="the paper's mean",
            zorder=5,
        )
    ax.plot([], [], color="#222222", label="box: 25 to 75 %, whiskers: 5 to 95 %")
    ax.set_ylim(bottom=0)
    legend(ax)
    return figure


def tails(title, series, known=()):
    """Complementary distributions in µs: (name, [(latency, share that is longer)]), both axes logarithmic."""
    series = [(name, [p for p in points if p[0] > 0 and p[1] > 0]) for name, points in series]
    series = [(name, points) for name, points in series if points]
    if not series:
        return None
    figure, ax = axes(title, "latency, µs", "share of longer messages")
    for number, (name, points) in enumerate(series):
        xs, ys = zip(*sorted(points), strict=True)
        ax.step(xs, ys, where="post", label=name, color=COLOURS[number % len(COLOURS)], zorder=3)
    references(ax, known)
    ax.set_xscale("log")
    ax.set_yscale("log")
    plain_log(ax.xaxis)
    legend(ax)
    return figure


def scatter_over_pauses(title, dots, pauses):
    """Outliers (share of the test, µs) over the collector's pauses (from, to, full)."""
    if not dots:
        return None
    figure, ax = axes(title, "time since the start, % of the test", "latency, µs")
    for full, colour, label in ((False, COLOURS[2], "pause of the collector"), (True, COLOURS[1], "full collection")):
        some = [(100 * begin, 100 * end) for begin, end, is_full in pauses if bool(is_full) == full]
        for number, (begin, end) in enumerate(some):
            ax.axvspan(
                begin, max(end, begin + 0.05), color=colour, alpha=0.25, linewidth=0, label=None if number else label
            )
    ax.scatter([100 * x for x, _ in dots], [y for _, y in dots], s=5, color=COLOURS[0], label="outliers", zorder=3)
    ax.set_yscale("log")
    ax.set_xlim(-1, 101)
    low, high = ax.get_ylim()
    plain_log(ax.yaxis, minor=high / low < 20)
    legend(ax)
    return figure


def encoded(figure, form):
    """The bytes of a figure in the format `form`: `svg` or `png`."""
    target = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else None
    figure.savefig(target, format=form, dpi=130, metadata=metadata)
    return target.getvalue()


def uri(image):
    """An SVG image as the address of an `img` element: the page needs no other file."""
    return "data:image/svg+xml;base64," + base64.b64encode(image).decode()


def close(figure):
    plt.close(figure)
