"""Claims of two papers about picture quality, judged by the figures of `bench quality`."""

from .. import estimate
from ..marks import Mark, Verdict, decide

# The smallest relevant change, in dB of PSNR and in SSIM.
MATTERS = {"PSNR": 1.0, "SSIM": 0.01}
# Drop of the curves in GamingAnywhere's figures 10(c) and 11(c), in dB of PSNR and in SSIM.
DROP = {"PSNR": 6.0, "SSIM": 0.1}


def figures(results, varied):
    """The figures that vary a quantity: `delay`, `loss`, `bandwidth`, `gop`."""
    for result in results.of("bench quality"):
        for figure in result.get("figures", []):
            if figure.get("varied") == varied:
                yield figure


def ends(results, varied, constant=None, lossy=None):
    """For each line, (measure, name, change, first and last mean) from the least to the most of a quantity."""
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
    return ", ".join(
        f"{measure} {first:.{3 if measure == 'SSIM' else 1}f} to {last:.{3 if measure == 'SSIM' else 1}f} ({name})"
        for measure, name, _, first, last in lines
    )


def _bounds(change):
    """The interval of a change; for single batches, the change itself."""
    return (change.low, change.high) if change.half is not None else (change.mean, change.mean)


def falls(varied):
    """Quality falls from the least to the most of a quantity."""

    def judge(results):
        lines = list(ends(results, varied))
        if not lines:
            return None
        holds = all(_bounds(change)[1] < -MATTERS[measure] for measure, _, change, *_ in lines)
        fails = any(_bounds(change)[0] > -MATTERS[measure] for measure, _, change, *_ in lines)
        return decide(holds, fails, f"from the smallest value to the largest: {_text(lines)}")

    return judge


def stays(varied):
    """Quality does not change by an amount that matters."""

    def judge(results):
        lines = list(ends(results, varied))
        if not lines:
            return None
        inside = [(measure, *_bounds(change)) for measure, _, change, *_ in lines]
        holds = all(-MATTERS[measure] <= low and high <= MATTERS[measure] for measure, low, high in inside)
        fails = any(high < -MATTERS[measure] or low > MATTERS[measure] for measure, low, high in inside)
        return decide(holds, fails, f"from the smallest value to the largest: {_text(lines)}")

    return judge


def bandwidth(results):
    lines = list(ends(results, "bandwidth", constant=True))
    if not lines:
        adaptive = list(ends(results, "bandwidth", constant=False))
        if not adaptive:
            return None
        return Verdict(Mark.INCONCLUSIVE, f"measured only with an adaptive rate: {_text(adaptive)}")
    holds = all(_bounds(change)[0] > DROP[measure] for measure, _, change, *_ in lines)
    fails = any(_bounds(change)[1] < DROP[measure] for measure, _, change, *_ in lines)
    return decide(holds, fails, f"at a constant rate, from the smallest bandwidth to the largest: {_text(lines)}")


def gop(results):
    clean, lossy = (list(ends(results, "gop", lossy=lossy)) for lossy in (False, True))
    if not clean or not lossy:
        return None
    better = [_bounds(change) for _, _, change, *_ in clean]
    worse = [_bounds(change) for _, _, change, *_ in lossy]
    holds = all(low > 0 for low, _ in better) and all(high < 0 for _, high in worse)
    fails = any(high < 0 for _, high in better) or any(low > 0 for low, _ in worse)
    return decide(holds, fails, f"from the shortest to the longest GOP: {_text(clean)}; with loss: {_text(lossy)}")


def best_batches(result):
    """The SSIM of each batch of frames on a perfect link, for all contents."""
    for figure in result.get("figures", []):
        if figure.get("measure") == "SSIM" and figure.get("varied") in ("delay", "loss"):
            points = [
                min(series["points"], key=lambda p: p["x"]) for series in figure["series"] if series.get("points")
            ]
            return [batch for point in points for batch in point.get("batch_means") or [point["mean"]]]
    return []
