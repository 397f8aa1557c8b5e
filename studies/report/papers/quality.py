"""Claims of two papers about picture quality, judged by the figures of `bench quality`."""

import math

from .. import estimate
from ..marks import Check, Mark, Verdict, judged

# The smallest relevant change, in dB of PSNR and in SSIM.
MATTERS = {"PSNR": 1.0, "SSIM": 0.01}
# The choice (`Claim.chosen`) of all claims that this module judges.
BATCHES = "each batch of 150 frames counts as a run"
# The number of frames of a batch, and the time from batch to batch with --batches, in seconds.
BATCH_FRAMES, EVERY_S = 150, 10
# Drop of the curves in GamingAnywhere's figures 10(c) and 11(c), in dB of PSNR and in SSIM.
DROP = {"PSNR": 6.0, "SSIM": 0.1}


def figures(results, varied):
    """The figures that vary a quantity: `delay`, `loss`, `bandwidth`, `gop`."""
    for result in results.of("bench quality"):
        for figure in result.get("figures", []):
            if figure.get("varied") == varied:
                yield figure


def ends(results, varied, constant=None, lossy=None):
    """For each line: (measure, name, change, first mean, last mean), from the smallest to the largest value."""
    for figure in figures(results, varied):
        for series in figure.get("series", []):
            if constant is not None and bool(series.get("constant_rate")) != constant:
                continue
            if lossy is not None and bool(series.get("loss_percent")) != lossy:
                continue
            points = sorted(series.get("points", []), key=lambda point: point["x"])
            if len(points) < 2:
                continue
            first, last = points[0], points[-1]
            change = estimate.difference(
                last.get("batch_means") or [last["mean"]], first.get("batch_means") or [first["mean"]]
            )
            yield figure["measure"], f"{series['name']}", change, first["mean"], last["mean"]


def _text(lines):
    found = []
    for measure, name, change, first, last in lines:
        digits = 3 if measure == "SSIM" else 1
        ends_text = f"{first:.{digits}f} to {last:.{digits}f}"
        found.append(f"{measure} {ends_text}, change {change.text(digits)} ({name})")
    return ", ".join(found)


def falls(varied):
    """Judges whether quality falls by more than the bounds, from the smallest to the largest value of a quantity."""

    def judge(results, bound):
        lines = list(ends(results, varied))
        why = f"from the smallest value to the largest: {_text(lines)}"
        return judged((Check(change, most=-bound[measure]) for measure, _, change, *_ in lines), why)

    return judge


def stays(varied):
    """Judges whether quality changes by less than the bounds, from the smallest to the largest value of a quantity."""

    def judge(results, bound):
        lines = list(ends(results, varied))
        why = f"from the smallest value to the largest: {_text(lines)}"
        return judged((Check(change, -bound[measure], bound[measure]) for measure, _, change, *_ in lines), why)

    return judge


def bandwidth(results, bound):
    lines = list(ends(results, "bandwidth", constant=True))
    if not lines:
        adaptive = list(ends(results, "bandwidth", constant=False))
        if not adaptive:
            return None
        return Verdict(Mark.INCONCLUSIVE, f"measured only with an adaptive rate: {_text(adaptive)}")
    why = f"at a constant rate, from the smallest bandwidth to the largest: {_text(lines)}"
    return judged((Check(change, bound[measure]) for measure, _, change, *_ in lines), why)


def gop(results, bound):
    clean, lossy = (list(ends(results, "gop", lossy=lossy)) for lossy in (False, True))
    if not clean or not lossy:
        return None
    why = f"from the shortest to the longest GOP: {_text(clean)}; with loss: {_text(lossy)}"
    better = [Check(change, bound) for _, _, change, *_ in clean]
    return judged(better + [Check(change, most=-bound) for _, _, change, *_ in lossy], why)


def best_batches(result):
    """The SSIM of each batch of frames on a perfect link, by clip."""
    if result.get("batches"):
        return {clip["content"]: clip["ssim"] for clip in result.get("batches") if clip.get("ssim")}
    for figure in result.get("figures", []):
        if figure.get("measure") == "SSIM" and figure.get("varied") in ("delay", "loss"):
            points = {
                series["name"]: min(series["points"], key=lambda p: p["x"])
                for series in figure["series"]
                if series.get("points")
            }
            return {name: point.get("batch_means") or [point["mean"]] for name, point in points.items()}
    return {}


def seconds(result, clips):
    """The time that these batches of a result represent. Batches that were not measured do not count."""
    batch = EVERY_S if result.get("batches") else BATCH_FRAMES / result.get("fps", math.inf)
    return batch * sum(len(ssim) for ssim in clips.values())
