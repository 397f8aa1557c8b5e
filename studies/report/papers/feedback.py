"""The control protocol in OpenUVR's figure 11: the client's feedback, measured by `bench quality --feedback`."""

from .. import estimate
from ..marks import Check, Tolerance, judged
from ..results import named, value

# Section V-A2, ms: the latency that feedback saves. "The resulting video quality is far superior."
SAVING_MS = 0.1
WITHOUT, WITH = "no feedback", "references by reports"
# Largest growth of the latency that counts as none, and the smallest gain of SSIM that counts as far superior (see
# SUPERIOR).
BOUNDS = {"ms": 1.67, "SSIM": 0.05}

SUPERIOR = Tolerance(
    f"with 1 % loss, feedback improves the SSIM by more than {BOUNDS['SSIM']}, and the latency grows by less than "
    f"{BOUNDS['ms']} ms",
    BOUNDS,
    "the paper has no numbers for the picture; an SSIM difference of 0.05 is half of the difference between good "
    f"(0.9) and perfect (1). A growth of {BOUNDS['ms']} ms, a tenth of the frame interval at 60 frames/s, is "
    "invisible; the paper's own saving is less than the error of a few runs (guesses)",
)
CHOSEN = (
    "the paper does not state the loss: a loss of 1 %, a round trip of 4 ms and, without feedback, one key frame per "
    "second were chosen for this bench; the latency is measured from Captured to Submitted, for complete frames only; "
    "without feedback, many frames are incomplete"
)


def ways(clip):
    """The rows of a clip without and with feedback; None if one has no run."""
    rows = [named(clip.get("ways", []), name) for name in (WITHOUT, WITH)]
    return rows if all(row and row.get("runs") for row in rows) else None


def savings(results):
    """(text, latency saved in ms, SSIM gained) of each clip, as estimates."""
    for result in results.of("bench quality"):
        for clip in result.get("feedback", []):
            rows = ways(clip)
            if rows is None:
                continue
            latency, ssim = ([estimate.runs_of(row.get(key)) for row in rows] for key in ("latency_ms", "ssim"))
            saved = estimate.difference(latency[0], latency[1])
            gained = estimate.difference(ssim[1], ssim[0])
            if saved is None or gained is None:
                continue
            loss = value(result.data, "loss_percent", 0)
            text = f"{clip['content']} at {loss:g} % loss: {saved.text(2, 'ms')} saved, SSIM {gained.text(3)} better"
            yield text, saved, gained


def superior(results, bound):
    """Judges whether the picture is far better with feedback, without a growth of the latency that matters."""
    found = list(savings(results))
    checks = [Check(gained, bound["SSIM"]) for _, _, gained in found]
    checks += [Check(saved, -bound["ms"]) for _, saved, _ in found]
    return judged(checks, "; ".join(text for text, *_ in found))
