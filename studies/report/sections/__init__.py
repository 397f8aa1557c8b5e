"""A section for each bench and study. A further section needs a function in a module, and a line here."""

from . import (
    ablation,
    browsers,
    comparisons,
    contest,
    feedback,
    jitter,
    latency,
    link,
    quality,
    smaller,
    traffic,
    wifi,
)

SECTIONS = (
    latency.section,
    ablation.section,
    comparisons.sync,
    comparisons.capture,
    comparisons.slices,
    comparisons.peers,
    smaller.scheduling,
    link.section,
    contest.section,
    smaller.sound,
    smaller.pads,
    smaller.sensor,
    browsers.section,
    quality.section,
    feedback.section,
    smaller.sessions,
    smaller.encoder,
    smaller.foveation,
    smaller.prediction,
    smaller.reprojection,
    wifi.section,
    traffic.section,
    jitter.section,
    jitter.samples,
)


def all_sections(results):
    for section in SECTIONS:
        yield section(results)
