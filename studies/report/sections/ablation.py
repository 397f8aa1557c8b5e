"""`bench ablation`: the value of each optimisation, beside figure 11."""

from .. import estimate, plots
from ..blocks import ABSENT, Section, percent
from ..papers import feedback, openuvr
from ..results import QUIET_CORES, value
from .latency import stages

GROUPS = (
    ("Cumulative", "cumulative"),
    ("OpenUVR without one optimisation", "leave_one_out"),
    ("OpenUVR with an alternative", "alternatives"),
    ("OpenUVR over a virtual cable", "links"),
    ("Every core busy", "busy"),
)
HEADS = ["configuration", "p50, ms", "p99, ms", "runs", "complete, least", "cores", "link", "gain, ms", ""]


def _row(ablation, row):
    if not row.get("p50_ms"):
        return [row["name"], *[ABSENT] * 7, row.get("unavailable") or "not measured"]
    worth = row.get("worth_ms")
    clear = {True: "", False: "within the range of the runs", None: "single run"}[row.get("clear")]
    cells = [estimate.of_runs(row.get(key)) for key in ("p50_ms", "p99_ms", "cores")]
    text = [cell.text() if cell else ABSENT for cell in cells]
    return [
        row["name"],
        text[0],
        text[1],
        row.get("runs", ABSENT),
        percent(row, "complete", 0),
        text[2],
        row.get("link") or ABSENT,
        ABSENT if worth is None else f"{worth:+.2f}",
        "" if worth is None else clear,
    ]


def mean_steps(ablation, configuration):
    """The steps of a configuration, each with its mean over all runs; means add up, and medians do not."""
    steps = {}
    for run in ablation.get("runs", []):
        if run.get("configuration") == configuration:
            for step in run.get("steps", []):
                steps.setdefault((step["from"], step["to"]), []).append(value(step, "ms/mean"))
    return [
        {"from": begin, "to": end, "ms": {"mean": sum(means) / len(means)}}
        for (begin, end), means in steps.items()
        if None not in means
    ]


def section(results):
    # The result that the verdicts use, if there is one.
    ablation = openuvr.ablation_of(results) or results.first("bench ablation")
    if ablation is None:
        return None
    made = Section("What each optimisation is worth")
    made.text(
        f"{ablation.get('size')} at {ablation.get('bitrate')}, {ablation.get('repetitions')} interleaved runs of "
        f"{ablation.get('seconds'):g} s. A positive gain means a shorter latency."
    )
    if ablation.other_cores > QUIET_CORES:
        made.text("The machine was busy, so the differences mean little.")
    cumulative = [(row["name"], estimate.of_runs(row.get("p50_ms")), None) for row in ablation.get("cumulative", [])]
    if len(cumulative) > 1:
        cumulative[0] = (*cumulative[0][:2], openuvr.HWA_GAMINGANYWHERE_MS)
        cumulative[-1] = (*cumulative[-1][:2], openuvr.OPENUVR_MS)
    made.plot(
        "ablation",
        plots.bars("One optimisation after the other", "drawn to visible, p50, ms", cumulative, "paper, figure 10"),
    )
    savings = [
        ("transcoding", openuvr.transcoding_saving(results), openuvr.TRANSCODING_MS),
        ("data sharing", openuvr.sharing_saving(results), openuvr.SHARING_MS),
        ("direct network I/O", openuvr.network_saving(results), openuvr.NETWORK_MS),
        ("peer-to-peer, RGB (Wi-Fi model)", openuvr.topology_saving(results), openuvr.PEERS_RGB_MS),
        ("feedback", openuvr.feedback_saving(results), feedback.SAVING_MS),
    ]
    rows = [(name, found.saved, paper) for name, found, paper in savings if found and found.saved]
    made.plot("ablation figure 11", plots.bars("The paper's own optimisations (figure 11)", "saved, ms", rows, "paper"))
    for title, group in GROUPS:
        made.table(HEADS, (_row(ablation, row) for row in ablation.get(group, [])), title)
    last = ablation.get("cumulative", [])[-1:]
    bars = [("conventional", stages(mean_steps(ablation, openuvr.CONVENTIONAL)))]
    bars += [("ours", stages(mean_steps(ablation, row["name"]))) for row in last]
    made.plot("ablation stages", plots.stacked("Where the time goes: mean of each stage", "mean time, ms", bars))
    made.text(
        f"The paper's figure 6 has {openuvr.NETWORK_STACK_MS} ms in the host's network stack, {openuvr.ENCODING_MS} ms "
        f"of encoding and {openuvr.CLIENT_MS} ms in the client. The alternative \"Unity's pacer\" sends a batch "
        "every 5.56 ms, as the Unity study observed for WebRTC programs. No other configuration delays datagrams."
    )
    return made
