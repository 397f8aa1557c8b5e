"""SEARIS slides: "Reducing Application-Stage Latencies For Real-Time Interactive Systems".

Measured on an Intel Core i7-2700K, Linux 3.14.57 with and without the RT patch; 16 pairs, 10,000,000 samples. Findings
are compared as ratios and orders, because the machines differ.
"""

from ..marks import Claim, Mark, Verdict, not_measured
from ..results import QUIET_CORES, value

# Minimum number of samples for a meaningful maximum: a tenth of the number in the slides.
ENOUGH = 1_000_000
# Slide "Max, Mean, and Median of Latency Values", under SCHED_OTHER, in µs: (kernel with RT patch, vanilla kernel).
RUNTIMES_US = {
    "pekko/cms": {
        "name": "Akka",
        "max": (67_000.0, 63_400.0),
        "mean": (1_900.0, 15_900.0),
        "median": (915.8, 14_500.0),
    },
    "java": {"name": "Java", "max": (24_700.0, 23_300.0), "mean": (684.2, 106.2), "median": (144.3, 67.5)},
    "pthread": {"name": "C++", "max": (380.2, 577.9), "mean": (48.0, 34.8), "median": (43.1, 35.3)},
    "caf": {"name": "C++ actors", "max": (130.8, 72.5), "mean": (4.1, 3.7), "median": (3.5, 3.2)},
}
# Slide "Max, Mean, and Median of GCs", vanilla kernel, longest latency in ms: (SCHED_OTHER, SCHED_RR).
LONGEST_MS = {"cms": (63.4, 212.0), "g1": (216.8, 210.6), "parallel": (1110.2, 192.0), "serial": (385.1, 717.4)}
COLLECTORS = tuple(LONGEST_MS)


def cell(results, name, real_time_kernel=None):
    """A complete cell, measured on a kernel with the RT patch (True), without it (False), or on any kernel (None)."""
    for result in results.of("lab jitter"):
        for one in result.get("cells", []):
            kernel = bool(value(one, "conditions/real_time_kernel", False))
            if one.get("cell") == name and not one.get("error") and real_time_kernel in (None, kernel):
                return one
    return None


def cell_of(result, name):
    """A cell of one result file, complete or not; empty if it is not there."""
    return next((one for one in result.get("cells", []) if one.get("cell") == name), {})


def micros(one, what):
    """A value of a cell's received - sent, µs."""
    return value(one, f"analysis/sent/{what}", 0.0) / 1e3


def decided(mark, why, cells):
    """A verdict with this mark, or an inconclusive verdict if the cells do not suffice."""
    if any(value(one, "analysis/sent/count", 0) < ENOUGH for one in cells):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; fewer than {ENOUGH:,} samples")
    if any(one.get("quick") for one in cells):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; a quick run decides nothing")
    if any(one.get("other_cores", 0) > QUIET_CORES for one in cells):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; the machine was busy with other processes")
    return Verdict(mark, why)


def holds(claim):
    return Mark.REPRODUCED if claim else Mark.NOT_REPRODUCED


def threads(results):
    ours = cell(results, "pthread/ping-pong/other", False)
    if ours is None:
        return None
    paper = RUNTIMES_US["pthread"]["median"][1]
    median = micros(ours, "median")
    return decided(holds(paper / 3 <= median <= paper * 3), f"{median:.1f} µs, ping-pong", [ours])


def actors(results):
    caf, native = (cell(results, f"{runtime}/ping-pong/other", False) for runtime in ("caf", "pthread"))
    if caf is None or native is None:
        return None
    actor, thread = micros(caf, "median"), micros(native, "median")
    why = f"{actor:.2f} against {thread:.1f} µs, ping-pong"
    paced = [cell(results, f"{runtime}/paced/other", False) for runtime in ("caf", "pthread")]
    if all(paced):
        why += "; in paced cells, where threads sleep between messages, {:.1f} against {:.1f} µs".format(
            *(micros(one, "median") for one in paced)
        )
    return decided(holds(actor * 3 <= thread), why, [caf, native])


def akka(results):
    """The slides do not say whether senders waited: both patterns must agree for a verdict."""
    java = cell(results, "java/ping-pong/other/g1", False)
    patterns = {pattern: cell(results, f"pekko/{pattern}/other/cms", False) for pattern in ("ping-pong", "flood")}
    if java is None or patterns["ping-pong"] is None:
        return None
    native = micros(java, "median")
    found = {pattern: micros(one, "median") for pattern, one in patterns.items() if one is not None}
    text = ", ".join(f"{pattern} {us:.1f} µs" for pattern, us in found.items())
    why = f"Pekko: {text}; Java threads {native:.1f} µs, ping-pong"
    support = {us >= 1000 and us > native for us in found.values()}
    if len(support) > 1 or len(found) < 2:
        reason = "the two patterns disagree" if len(support) > 1 else "only one of the two patterns was measured"
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {reason}, and the slides do not name their pattern")
    return decided(holds(support.pop()), why, [java, *(one for one in patterns.values() if one)])


def patch(results):
    pairs = []
    for name in ("pthread/ping-pong/other", "java/ping-pong/other/g1", "caf/ping-pong/other"):
        pair = cell(results, name, True), cell(results, name, False)
        if all(pair):
            pairs.append((name, *pair))
    if not pairs:
        if results.first("lab jitter") is None:
            return None
        return Verdict(
            Mark.NOT_MEASURED,
            "needs results of a kernel with the RT patch and of a kernel without it: name both folders with --from",
        )

    def share(one):
        return value(one, "analysis/outliers/0/count", 0) / max(value(one, "analysis/sent/count", 1), 1)

    text = "; ".join(
        f"{name}: outliers {share(rt):.2%} and {share(plain):.2%}, mean {micros(rt, 'mean'):.1f} and "
        f"{micros(plain, 'mean'):.1f} µs"
        for name, rt, plain in pairs
    )
    like = [share(rt) < share(plain) and micros(rt, "mean") > micros(plain, "mean") for _, rt, plain in pairs]
    mark = Mark.REPRODUCED if all(like) else Mark.INCONCLUSIVE if any(like) else Mark.NOT_REPRODUCED
    return decided(mark, f"with and without the patch: {text}", [one for _, *both in pairs for one in both])


def spikes(results):
    java, native = cell(results, "java/ping-pong/other/g1", False), cell(results, "pthread/ping-pong/other", False)
    if java is None or native is None:
        return None
    jvm, scheduler = micros(java, "max") / 1e3, micros(native, "max") / 1e3
    why = f"longest latency of Java threads {jvm:.1f} ms, of C++ threads {scheduler:.1f} ms"
    return decided(holds(jvm >= 2 * scheduler), why, [java, native])


def round_robin(results):
    alike, text, cells = 0, [], []
    for collector, (before, after) in LONGEST_MS.items():
        pair = [cell(results, f"pekko/ping-pong/{policy}/{collector}", False) for policy in ("other", "rr")]
        if not all(pair):
            return None
        other, rr = (micros(one, "max") / 1e3 for one in pair)
        # In the slides, G1 hardly changes. A change of less than a tenth does not count as growth.
        alike += (rr > other * 1.1) == (after > before * 1.1)
        text.append(f"{collector} {other:.0f} and {rr:.0f}")
        cells += pair
    why = f"longest latency under OTHER and RR, ms: {', '.join(text)}; {alike} of 4 collectors as in the slides"
    mark = Mark.REPRODUCED if alike == 4 else Mark.NOT_REPRODUCED if alike <= 1 else Mark.INCONCLUSIVE
    return decided(mark, why, cells)


def collections(results):
    """More outliers lie in pauses than by chance, under both policies."""
    text, beyond, cells = [], 0, []
    for policy in ("other", "rr"):
        for collector in COLLECTORS:
            one = cell(results, f"pekko/ping-pong/{policy}/{collector}", False)
            inside, chance = (value(one, f"analysis/outliers/0/{key}") for key in ("in_pauses", "by_chance"))
            if inside is None or chance is None:
                continue
            beyond += inside >= 2 * chance and inside >= 0.1
            text.append(f"{collector} {policy} {inside:.0%} ({chance:.0%})")
            cells.append(one)
    if not cells:
        return None
    share = beyond / len(cells)
    mark = Mark.REPRODUCED if share >= 0.75 else Mark.NOT_REPRODUCED if share <= 0.25 else Mark.INCONCLUSIVE
    return decided(mark, f"share of outliers in pauses (share expected by chance): {', '.join(text)}", cells)


SOURCE = ("lab jitter",)

CLAIMS = (
    Claim(
        "threads",
        "A message between 16 pairs of C++ threads takes 35.3 µs (median, vanilla kernel).",
        "within a factor of 3, since processor and kernel differ",
        SOURCE,
        threads,
        is_by_cell=True,
    ),
    Claim(
        "C++ actors",
        "C++ actors take a tenth of the time of C++ threads (3.2 against 35.3 µs, median).",
        "a third of the time or less",
        SOURCE,
        actors,
        is_by_cell=True,
    ),
    Claim(
        "Akka",
        "Akka takes milliseconds (14.5 ms, median), far more than Java threads (67.5 µs).",
        "at least 1 ms, and more than Java threads, in ping-pong and in flood",
        SOURCE,
        akka,
        is_by_cell=True,
    ),
    Claim(
        "RT kernel",
        "With the RT patch, there are fewer outliers and the mean is larger.",
        "fewer outliers above median + 2 sd, and a larger mean, in every measured runtime",
        SOURCE,
        patch,
        is_by_cell=True,
    ),
    Claim(
        "JVM and scheduler",
        "The JVM's spikes are much higher than the scheduler's (23.3 ms against 0.58 ms).",
        "twice as high or more",
        SOURCE,
        spikes,
        is_by_cell=True,
    ),
    Claim(
        "SCHED_RR",
        "Under SCHED_RR, the longest latencies of CMS and Serial grow, and those of G1 and Parallel do not: "
        + ", ".join(f"{name} {other:g} to {rr:g} ms" for name, (other, rr) in LONGEST_MS.items())
        + ".",
        "all four collectors behave as in the slides; if at most one does, not reproduced",
        SOURCE,
        round_robin,
        is_by_cell=True,
    ),
    Claim(
        "collectors",
        "Garbage collection is a dominant source of latency spikes, but not the only source.",
        "in three of four cells, pauses hold at least a tenth of the outliers and twice the share expected by chance",
        SOURCE,
        collections,
        is_by_cell=True,
    ),
    not_measured(
        "parallelism", "Actors scale with parallelism.", "all cells have 16 pairs, so the number of pairs does not vary"
    ),
)
