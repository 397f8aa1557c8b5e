"""`bench quality --batches` and `--feedback`: OpenUVR's section V-D1, and the control protocol in figure 11."""

from .. import estimate, plots
from ..blocks import ABSENT, Section
from ..papers import feedback, openuvr

HEADS = ["way", "host options", "runs", "p50, ms", "PSNR, dB", "SSIM", "complete, %"]


def _cells(way):
    found = [estimate.of_runs(way.get(key)) for key in ("latency_ms", "psnr_db", "ssim", "complete")]
    digits, scales = (2, 2, 4, 1), (1, 1, 1, 100)
    cells = []
    for one, digit, scale in zip(found, digits, scales, strict=True):
        half = None if one is None or one.half is None else one.half * scale
        cells.append(ABSENT if one is None else estimate.Estimate(one.mean * scale, half, one.runs).text(digit))
    return [way["name"], way.get("options") or "default", way.get("runs", ABSENT), *cells]


def _batches(made, result):
    series = [
        (clip["content"], [(at, ssim, None, None) for at, ssim in zip(clip["begin_s"], clip["ssim"], strict=True)])
        for clip in result.get("batches")
    ]
    length = result.get("seconds", 0.0)
    papers = [
        (f"OpenUVR's paper, {what}: {ssim}", [(0.0, ssim), (length, ssim)])
        for what, ssim in (("mean", openuvr.SSIM_MEAN), ("worst batch", openuvr.SSIM_WORST))
    ]
    figure = plots.lines("SSIM of each batch of 150 frames", "time, s", "luma SSIM", series, papers)
    made.plot("quality batches", figure)
    made.text(
        f"{result.get('size')} at {result.get('fps')} frames/s and {result.get('target_mbps', 0):g} Mb/s for "
        f"{length:g} s; 150 frames of every 10 s are compared."
    )
    missing = [why for clip in result.get("batches") for why in clip.get("missing", [])]
    if missing:
        made.text("Missing: " + "; ".join(missing))


def _feedback(made, result):
    for clip in result.get("feedback"):
        title = f"Feedback of the client: {clip['content']}, {clip.get('size')}"
        made.table(HEADS, (_cells(way) for way in clip["ways"]), title)
    made.text(
        f"{result.get('loss_percent'):g} % loss and a round trip of {result.get('round_trip_ms'):g} ms, "
        f"{result.get('bitrate')}, {result.get('repetitions')} interleaved runs. Latency is from Captured to "
        f"Submitted. In the paper, feedback saves {feedback.SAVING_MS} ms; the paper states no numbers for the picture."
    )


def section(results):
    found = results.of("bench quality")
    made = Section("Batches of a long stream, and feedback")
    for result in found:
        if result.get("batches"):
            _batches(made, result)
        if result.get("feedback"):
            _feedback(made, result)
    return made if made.parts else None
