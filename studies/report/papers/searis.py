"""SEARIS slides: "Reducing Application-Stage Latencies For Real-Time Interactive Systems".

Measured on an Intel Core i7-2700K, Linux 3.14.57 with and without the RT patch; 16 pairs, 10,000,000 samples. Findings
are compared as ratios, as orders, or with wide tolerances, because the machines differ.
"""

import re

from .. import estimate
from ..marks import DECIDED, Check, Claim, Mark, Tolerance, Verdict, judged, not_testable
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
# The collectors whose longest latency grows under SCHED_RR according to the slides.
GROWING = ("cms", "serial")


# The bounds of all claims.
ABOUT_AS_FAST = Tolerance(
    "the median is within a factor of 3 of the slides' median",
    3.0,
    "the kernel differs, and the processor is at least five years newer (a guess)",
)
FASTER = Tolerance(
    "C++ actors take at most a third of the time of C++ threads",
    3.0,
    "actors take a tenth of the time in the slides, and the machines differ (a guess)",
)
MILLISECONDS = Tolerance(
    "in ping-pong and in flood, a message takes at least 1 ms, and longer than between Java threads",
    1000.0,
    "the claim says milliseconds, and the slides do not name their pattern",
)
FEWER = Tolerance(
    "each measured runtime has fewer outliers above median + 2 standard deviations, and a larger mean",
    0.0,
    "the claim is a direction, so any difference above its error counts",
)
HIGHER = Tolerance(
    "the longest latency of Java threads is at least twice that of C++ threads",
    2.0,
    "the ratio is 40 in the slides, but maxima differ severalfold from run to run (a guess)",
)
GROWTH = Tolerance(
    "the longest latency grows by more than a tenth with CMS and with Serial, but not with G1 and not with Parallel",
    1.1,
    "in the slides, the longest latency of G1 falls by 3 %, and the claim counts this as no growth; a tenth is about "
    "three times this change",
)
MORE_THAN_CHANCE = Tolerance(
    "over the cells of all four collectors under OTHER and RR, at least a tenth of the outliers lie in pauses and at "
    "least a tenth lie outside, and the share in pauses is at least twice the share expected by chance",
    2.0,
    "the slides do not compare with chance; if pauses caused no outliers, the ratio would be 1, and if only pauses "
    "caused outliers, no outlier would lie outside (guesses)",
)
SCALES_BETTER = Tolerance(
    "from 1 pair to 64 pairs, the median of threads grows by a larger factor than that of actors",
    1.0,
    "the claim is an order, so any ratio of the factors that differs from 1 by more than its error counts",
)
SAME_MEDIAN = Tolerance(
    "with 10 million messages, the median of C++ threads and that of C++ actors differ from those with 1 million by less "
    "than a factor of 1.5",
    1.5,
    "the slides have no figures; medians of runs of one length differ by up to this factor (a guess)",
)
# If at least this share of the outliers lies in pauses, the pauses are a source of outliers. If at least this share
# lies outside of pauses, there is another source (a guess).
A_SOURCE = 0.1


# Number of pairs of sender and receiver in the slides, and the two numbers of pairs that the claim about parallelism
# compares.
PAIRS, FEW, MANY = 16, 1, 64
# Number of messages in the slides, and that of the shorter runs in the claim about longer runs.
SAMPLES, SHORT = 10_000_000, 1_000_000


def option(result, one, name, default):
    """The number that is the value of an option in the command line of a cell's probe, or in that of its result file. A
    file may also contain cells of earlier commands with other options."""
    commands = one.get("command", ""), result.get("command", "")
    found = next(filter(None, (re.search(rf"--{name}[ =](\d+)", command) for command in commands)), None)
    return int(found[1]) if found else default


def is_short(result, one):
    """Whether a cell belongs to the shorter runs in the claim about longer runs. Floods do not; a flood always has a
    tenth of the messages."""
    return "/flood/" not in one["cell"] and option(result, one, "samples", SAMPLES) == SHORT


def cells(results, name, real_time_kernel=None, pairs=PAIRS, short=False):
    """The complete runs of a cell with this number of pairs in all result files, measured on a kernel with the RT patch
    (True), without it (False), or on any kernel (None); only the short runs, or all others. Each has the CPU model and
    the core count as `machine`, and the kernel's release as `kernel`."""
    found = []
    for result in results.of("lab jitter"):
        for one in result.get("cells", []):
            if one.get("cell") != name or one.get("error") or option(result, one, "pairs", PAIRS) != pairs:
                continue
            if is_short(result, one) != short:
                continue
            kernel = bool(value(one, "conditions/real_time_kernel", False))
            if real_time_kernel in (None, kernel):
                machine = result.get("machine/cpu"), result.get("machine/cores")
                found.append(one | {"machine": machine, "kernel": result.get("machine/kernel")})
    return found


def cell(results, name, real_time_kernel=None):
    """The first run of a cell, or None."""
    return next(iter(cells(results, name, real_time_kernel)), None)


def cell_of(result, name):
    """The cell with this name in one result file, complete or not; an empty dictionary if there is none."""
    return next((one for one in result.get("cells", []) if one.get("cell") == name), {})


def micros(one, what):
    """A statistic of received - sent of a cell, such as `median`, in µs."""
    return value(one, f"analysis/sent/{what}", 0.0) / 1e3


def each(runs, what):
    """A statistic of received - sent, such as `median`, of each run, in µs."""
    return [micros(one, what) for one in runs]


def on_one_machine(runs):
    """Whether all runs are from the same machine. Virtual machines of equal CPU model and core count can be on hosts of
    different speed. A different kernel is then the only sign, except in a comparison with a kernel with the RT patch.
    """
    kernels = {(bool(value(one, "conditions/real_time_kernel", False)), one["kernel"]) for one in runs}
    patched = {is_patched for is_patched, _ in kernels}
    return len({one["machine"] for one in runs}) <= 1 and len(kernels) == len(patched)


def over_runs(checks, why, *groups):
    """The verdict on several runs of cells. Runs of different machines, and runs that are quick, short or on a busy
    machine decide nothing.
    """
    found, used = judged(checks, why), [one for runs in groups for one in runs]
    if found is None or found.mark not in DECIDED:
        return found
    if not on_one_machine(used):
        reason = "the runs are from different machines (CPU model, core count or kernel)"
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {reason}")
    if any(value(one, "analysis/sent/count", 0) < ENOUGH for one in used):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; fewer than {ENOUGH:,} samples")
    if any(one.get("quick") for one in used):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; a quick run decides nothing")
    if any(one.get("other_cores", 0) > QUIET_CORES for one in used):
        return Verdict(Mark.INCONCLUSIVE, f"{why}; the machine was busy with other processes")
    return found


def threads(results, bound):
    ours = cells(results, "pthread/ping-pong/other", False)
    if not ours:
        return None
    paper, median = RUNTIMES_US["pthread"]["median"][1], estimate.of(each(ours, "median"))
    return over_runs([Check(median, paper / bound, paper * bound)], f"{median.text(1, 'µs')}, ping-pong", ours)


def actors(results, bound):
    caf, native = (cells(results, f"{runtime}/ping-pong/other", False) for runtime in ("caf", "pthread"))
    times = estimate.ratio(each(native, "median"), each(caf, "median"))
    if times is None:
        return None
    medians = [estimate.of(each(runs, "median")).text(2) for runs in (caf, native)]
    why = f"{medians[0]} against {medians[1]} µs, ping-pong: C++ threads take {times.text(1)} times as long"
    paced = [cells(results, f"{runtime}/paced/other", False) for runtime in ("caf", "pthread")]
    if all(paced):
        why += "; in paced cells, in which threads sleep between messages, {:.1f} against {:.1f} µs".format(
            *(estimate.of(each(runs, "median")).mean for runs in paced)
        )
    return over_runs([Check(times, bound)], why, caf, native)


def akka(results, bound):
    """Judges the latency of Akka actors. The slides do not state whether senders waited, so a verdict needs the same
    result in both patterns."""
    java = cells(results, "java/ping-pong/other/g1", False)
    patterns = {pattern: cells(results, f"pekko/{pattern}/other/cms", False) for pattern in ("ping-pong", "flood")}
    if not java or not patterns["ping-pong"]:
        return None
    text, marks = [], []
    for pattern, runs in patterns.items():
        times = estimate.ratio(each(runs, "median"), each(java, "median"))
        if times is None:
            continue
        median = estimate.of(each(runs, "median"))
        text.append(f"{pattern} {median.text(1, 'µs')}")
        found = over_runs([Check(median, bound), Check(times, 1.0)], "", runs, java)
        marks.append(found)
    native = estimate.of(each(java, "median"))
    why = f"Pekko: {', '.join(text)}; Java threads {native.text(1, 'µs')}, ping-pong"
    if len(marks) < 2:
        reason = "only one of the two patterns was measured, and the slides do not name their pattern"
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {reason}")
    undecided = next((found for found in marks if found.mark not in DECIDED), None)
    if undecided:
        return Verdict(Mark.INCONCLUSIVE, f"{why}{undecided.why}")
    if marks[0].mark is not marks[1].mark:
        reason = "the two patterns disagree, and the slides do not name their pattern"
        return Verdict(Mark.INCONCLUSIVE, f"{why}; {reason}")
    return Verdict(marks[0].mark, why)


def patch(results, bound):
    pairs = []
    for name in ("pthread/ping-pong/other", "java/ping-pong/other/g1", "caf/ping-pong/other"):
        pair = cells(results, name, True), cells(results, name, False)
        if all(pair):
            pairs.append((name, *pair))
    if not pairs:
        if results.first("lab jitter") is None:
            return None
        return Verdict(
            Mark.NOT_TESTABLE,
            "no result is from a kernel with the RT patch. The test needs a machine that can boot both kernels, or whose "
            "processor virtualises, for two virtual machines; run lab jitter on both kernels, and name both folders "
            "with --from",
        )

    def share(one):
        return 100 * value(one, "analysis/outliers/0/count", 0) / max(value(one, "analysis/sent/count", 1), 1)

    text, checks = [], []
    for name, rt, plain in pairs:
        fewer = estimate.difference([share(one) for one in plain], [share(one) for one in rt])
        slower = estimate.difference(each(rt, "mean"), each(plain, "mean"))
        checks += [Check(fewer, bound), Check(slower, bound)]
        text.append(f"{name}: share of outliers {fewer.text(4, '%')} lower, mean {slower.text(1, 'µs')} higher")
    why = f"with the patch: {'; '.join(text)}"
    return over_runs(checks, why, *(runs for _, *both in pairs for runs in both))


def spikes(results, bound):
    java, native = (cells(results, f"{name}", False) for name in ("java/ping-pong/other/g1", "pthread/ping-pong/other"))
    times = estimate.ratio(each(java, "max"), each(native, "max"))
    if times is None:
        return None
    longest = [estimate.of(ms / 1e3 for ms in each(runs, "max")).text(1, "ms") for runs in (java, native)]
    why = f"longest latency of Java threads {longest[0]}, of C++ threads {longest[1]}: {times.text(1)} times"
    return over_runs([Check(times, bound)], why, java, native)


def round_robin(results, bound):
    checks, text, used = [], [], []
    for collector in COLLECTORS:
        other, rr = (cells(results, f"pekko/ping-pong/{policy}/{collector}", False) for policy in ("other", "rr"))
        growth = estimate.ratio(each(rr, "max"), each(other, "max"))
        if growth is None:
            return None
        checks.append(Check(growth, least=bound) if collector in GROWING else Check(growth, most=bound))
        text.append(f"{collector} {growth.text(2)}")
        used += [other, rr]
    return over_runs(checks, f"longest latency under RR, relative to OTHER: {', '.join(text)}", *used)


def collections(results, bound):
    """Judges whether more outliers lie in pauses than by chance, over all collectors and both policies."""
    names = [f"pekko/ping-pong/{policy}/{collector}" for policy in ("other", "rr") for collector in COLLECTORS]
    # Without the collector's log, the share in pauses is unknown, not 0.
    groups = {
        name: [one for one in cells(results, name, False) if value(one, "analysis/outliers/0/in_pauses") is not None]
        for name in names
    }
    measured = [runs for runs in groups.values() if runs]
    if not measured:
        return None

    def mean(run, key):
        return sum(value(one, f"analysis/outliers/0/{key}", 0.0) for one in run) / len(run)

    # One value per repetition of all cells; a repetition that lacks cells does not count.
    repetitions = list(zip(*measured, strict=False))
    inside = [mean(run, "in_pauses") for run in repetitions]
    beyond = [mean(run, "in_pauses") / mean(run, "by_chance") for run in repetitions if mean(run, "by_chance") > 0]
    if not beyond:
        return None
    share, times = estimate.of(inside), estimate.of(beyond)
    why = f"mean over {len(measured)} cells: a share of {share.text(3)} of the outliers lies in pauses, "
    why += f"{times.text(2)} times the share expected by chance"
    missing = [name for name, runs in groups.items() if not runs]
    if missing:
        return Verdict(Mark.INCONCLUSIVE, f"{why}; not measured: {', '.join(missing)}")
    return over_runs([Check(times, bound), Check(share, A_SOURCE, 1 - A_SOURCE)], why, *measured)


def parallelism(results, bound):
    used, growths = [], []
    for runtime in ("pthread", "caf"):
        few, many = (cells(results, f"{runtime}/ping-pong/other", False, pairs) for pairs in (FEW, MANY))
        growth = estimate.ratio(each(many, "median"), each(few, "median"))
        if growth is None:
            return None
        growths.append(growth)
        used += [few, many]
    times = estimate.relative(*growths)
    why = f"from {FEW} pair to {MANY}, the median of C++ threads grows {growths[0].text(2)} times, that of C++ actors "
    why += f"{growths[1].text(2)} times; ratio {times.text(2)}"
    return over_runs([Check(times, bound)], why, *used)


def length(results, bound):
    text, checks, used = [], [], []
    for runtime, runtime_name in (("pthread", "C++ threads"), ("caf", "C++ actors")):
        name = f"{runtime}/ping-pong/other"
        short, long = cells(results, name, False, short=True), cells(results, name, False)
        ratio, longest = (estimate.ratio(each(long, what), each(short, what)) for what in ("median", "max"))
        if ratio is None or longest is None:
            return None
        checks.append(Check(ratio, 1 / bound, bound))
        medians = [estimate.of(each(runs, "median")).text(2) for runs in (short, long)]
        text.append(f"{runtime_name}: median {medians[0]} and {medians[1]} µs, maximum {longest.text(1)} times as long")
        used += [short, long]
    why = f"with 1 and 10 million messages: {'; '.join(text)}"
    return over_runs(checks, why, *used)


SOURCE = ("lab jitter",)

RUNS = "each result file counts as a run"
PING_PONG = f"messages are exchanged in ping-pong, because the slides do not state their pattern; {RUNS}"


def _claim(place, text, tolerance, judge, chosen=PING_PONG):
    return Claim(place, text, tolerance, SOURCE, judge, chosen, is_by_cell=True)


CLAIMS = (
    _claim(
        "threads",
        "A message between 16 pairs of C++ threads takes 35.3 µs (median, vanilla kernel).",
        ABOUT_AS_FAST,
        threads,
    ),
    _claim(
        "C++ actors",
        "A message between C++ actors takes a tenth of the time of one between C++ threads (3.2 and 35.3 µs, medians).",
        FASTER,
        actors,
    ),
    _claim(
        "Akka",
        "A message in Akka takes milliseconds (median 14.5 ms), far longer than between Java threads (67.5 µs).",
        MILLISECONDS,
        akka,
        f"Pekko, a fork of Akka, is measured; {RUNS}",
    ),
    _claim(
        "RT kernel",
        "With the RT patch, there are fewer outliers and the mean is larger.",
        FEWER,
        patch,
    ),
    _claim(
        "JVM and scheduler",
        "The JVM's spikes are much higher than the scheduler's (23.3 ms against 0.58 ms).",
        HIGHER,
        spikes,
    ),
    _claim(
        "SCHED_RR",
        "Under SCHED_RR, the longest latencies of CMS and Serial grow, and those of G1 and Parallel do not: "
        + ", ".join(f"{name} {other:g} to {rr:g} ms" for name, (other, rr) in LONGEST_MS.items())
        + ".",
        GROWTH,
        round_robin,
    ),
    _claim(
        "collectors",
        "Garbage collection is a dominant source of latency spikes, but not the only source.",
        MORE_THAN_CHANCE,
        collections,
    ),
    Claim(
        "parallelism",
        "Actor systems scale better with increased parallelism (no numbers in the slides).",
        SCALES_BETTER,
        ("lab jitter --pairs 1", "lab jitter --pairs 64"),
        parallelism,
        f"parallelism is the number of pairs, and C++ actors represent actor systems; {RUNS}",
        is_by_cell=True,
    ),
    not_testable(
        "frameless rendering",
        "Frameless rendering avoids double buffering: it updates pixels in random order in the front buffer (no "
        "numbers in the slides).",
        "the test needs a renderer and a display that update single pixels; OpenUVR encodes and displays whole pictures",
    ),
    Claim(
        "longer runs",
        "The effect of longer runs is future work in the slides.",
        SAME_MEDIAN,
        ("lab jitter", f"lab jitter --samples {SHORT}"),
        length,
        f"the criterion is our own; runs of hours are not judged; {PING_PONG}",
        is_by_cell=True,
    ),
)
