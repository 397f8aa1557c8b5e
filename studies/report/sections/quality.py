"""`bench quality`: picture quality against link conditions, and the network load (GamingAnywhere's figures 9 to 11)."""

from .. import estimate, plots
from ..blocks import Section
from ..papers import gaminganywhere, openuvr

PAPER_TEXT = {
    "delay": "GamingAnywhere, figures 10(a) and 11(a): no visible effect from 0 to 600 ms.",
    "loss": "GamingAnywhere, figures 10(b) and 11(b): quality falls from 0 to 10 % loss (no numbers in the text).",
    "bandwidth": "GamingAnywhere, figures 10(c) and 11(c): a sudden drop below the bitrate of 3 Mb/s.",
    "gop": "OpenUVR, section IV-B3: a longer GOP is better without loss and worse with it.",
}


def _points(series, places):
    for point in series.get("points", []):
        found = estimate.of(point.get("batch_means") or [point["mean"]])
        x = places.index(point["label"]) if places else point["x"]
        yield x, point["mean"], found.low if found.half is not None else None, (
            found.high if found.half is not None else None
        )


def _places(figure):
    """Labels in the order of their values: `none` and `unlimited` have a place beyond the largest."""
    points = {point["x"]: point["label"] for series in figure["series"] for point in series["points"]}
    return [points[x] for x in sorted(points)]


def _paper(figure, count):
    """A line at the mean SSIM of OpenUVR's paper, in the figure that varies the loss."""
    if figure.get("measure") == "SSIM" and figure.get("varied") == "loss":
        return [
            (f"OpenUVR's paper, mean: {openuvr.SSIM_MEAN}", [(0, openuvr.SSIM_MEAN), (count - 1, openuvr.SSIM_MEAN)])
        ]
    return []


def _load(figure):
    """A panel of GamingAnywhere's figure 9: both directions of each content."""
    is_rate = figure["measure"] == "bit rate"
    rows = []
    for series in figure["series"]:
        for point in series["points"]:
            paper = gaminganywhere.BITRATE_MBPS if is_rate and series["name"] == "down" else None
            found = estimate.of(point.get("batch_means") or [point["mean"]])
            rows.append((f"{point['label']}, {series['name']}", found, paper))
    return plots.bars(figure["title"], figure["y"], rows, "GamingAnywhere, figure 9(d): at most")


def section(results):
    all_figures = [(r, f) for r in results.of("bench quality") for f in r.get("figures", []) if f.get("series")]
    if not all_figures:
        return None
    made = Section("Quality of the displayed pictures")
    for number, (result, figure) in enumerate(all_figures):
        if not figure.get("varied"):
            made.plot(f"quality load {figure['measure']}", _load(figure))
            continue
        places = _places(figure)
        series = []
        for one in figure["series"]:
            series.append((one["name"], list(_points(one, places))))
            worst = [
                (places.index(p["label"]), p["worst"], None, None) for p in one["points"] if p.get("worst") is not None
            ]
            if any(p.get("worst") != p["mean"] for p in one["points"]):
                series.append((f"{one['name']}, worst batch", worst))
        title = f"{figure['title']}"
        made.plot(
            f"quality {number + 1} {figure.get('measure', '')} {figure.get('varied', '')}",
            plots.lines(title, figure["x"], figure["y"], series, _paper(figure, len(places)), places),
        )
        if figure.get("measure") == "SSIM" and figure.get("varied") in PAPER_TEXT:
            made.text(PAPER_TEXT[figure["varied"]])
    conditions = {
        f"{r.get('size')} at {r.get('fps')} frames/s and {r.get('target_mbps')} Mb/s, {r.get('seconds')} s a point"
        for r, _ in all_figures
    }
    made.text(
        f"{'; '.join(sorted(conditions))}. Confidence intervals are over batches of 150 frames, and those of the "
        "network load over seconds."
    )
    return made
