"""The page: the papers' verdicts, then a section for each bench and study."""

import itertools
import pathlib

import jinja2

from . import blocks, plots, sections
from .marks import Mark
from .papers import PAPERS
from .results import QUIET_CORES

KINDS = {Mark.REPRODUCED: "yes", Mark.NOT_REPRODUCED: "no"}


def criterion(claim):
    """The criterion of a claim, its reason, and the choices, as text."""
    parts = [claim.tolerance.criterion]
    if claim.tolerance.reason:
        parts.append(f"Reason: {claim.tolerance.reason}")
    if claim.chosen:
        parts.append(f"Chosen: {claim.chosen}")
    return ". ".join(parts)


def verdicts(results):
    """(paper, [(claim, verdict)]) of all papers."""
    return [(paper, [(claim, claim.verdict(results)) for claim in claims]) for paper, claims in PAPERS]


def papers_section(results):
    section = blocks.Section("The papers' figures")
    judged = verdicts(results)
    marks = [verdict.mark for _, rows in judged for _, verdict in rows]
    section.text(", ".join(f"{marks.count(mark)} {mark.value}" for mark in Mark) + ".")
    for paper, rows in judged:
        section.table(
            ["figure", "claim", "counts as reproduced", "verdict", "measured"],
            [
                [c.place, c.text, criterion(c), blocks.Cell(v.mark.value, KINDS.get(v.mark, "open")), v.why]
                for c, v in rows
            ],
            paper,
        )
    return section


def provenance(results):
    """A section with the origin of each result file."""
    rows = []
    for result in results.all:
        machine = result.get("machine", {})
        rows.append(
            [
                result.name,
                result.place,
                f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores, Linux {machine.get('kernel', '?')}",
                (result.get("commit") or blocks.ABSENT)[:12],
                result.get("date", blocks.ABSENT),
                result.get("command", blocks.ABSENT),
            ]
        )
    section = blocks.Section("Result files")
    section.table(["result", "file", "machine", "commit", "date", "command"], rows)
    for result in results.all:
        for missing in result.get("incomplete", []):
            section.text(f"Missing in {result.place}: {missing}.")
        for words in result.get("unreliable", []):
            section.text(f"Unreliable in {result.place}: {words}.")
    for words in results.ignored:
        section.text(f"Ignored: {words}.")
    return section


def notices(results):
    """Warnings about results of a busy machine, of quick runs, and of runs of which a part failed or is unreliable."""
    loud = sorted({result.name for result in results.all if result.other_cores > QUIET_CORES})
    quick = sorted({result.name for result in results.all if result.is_quick})
    partial = {
        result.name for result in results.all if result.get("incomplete") or result.get("unreliable")
    }
    if loud:
        yield (
            f"Busy machine: other processes used more than {QUIET_CORES} cores during {', '.join(loud)}. These times "
            "are unreliable and decide nothing."
        )
    if quick:
        yield f"Quick runs: {', '.join(quick)}. They show that the benches work, and decide nothing."
    if partial:
        names = ", ".join(sorted(partial))
        yield f"Incomplete or unreliable: {names}. The section \"Result files\" lists the missing and unreliable parts."


def build(results):
    """All sections with content, in order."""
    made = [papers_section(results)]
    for section in sections.all_sections(results):
        if section is not None and section.parts:
            made.append(section)
    made.append(provenance(results))
    return made


def render(results, made, images):
    here = pathlib.Path(__file__).parent
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(here), autoescape=True, trim_blocks=True)
    template = environment.get_template("page.html.jinja2")
    return template.render(sections=made, notices=list(notices(results)), images=images)


def unused(name, images):
    """The name, with a number appended if another plot already has this name."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in images)


def write(results, out, folder=None):
    """Writes the page, and each plot into `folder` if there is one."""
    made = build(results)
    images = {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for section in made:
        for plot in section.plots():
            plot.name = unused(plot.name, images)
            image = plots.encoded(plot.figure, "svg")
            images[plot.name] = plots.uri(image)
            if folder is not None:
                (folder / f"{plot.name}.svg").write_bytes(image)
                (folder / f"{plot.name}.png").write_bytes(plots.encoded(plot.figure, "png"))
            plots.close(plot.figure)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(results, made, images), encoding="utf-8")
