"""The verdicts on kept results as a Markdown document (`docs/studies/results/verdicts.md`)."""

from . import page
from .marks import Mark

HEAD = """# Verdicts on the papers' figures

The reporter generates this page from the papers' data (`studies/report/papers`) and from the result files in
`docs/studies/results` and its subfolders. `./dev check figures` fails if the page is stale.

```sh
openuvr bench report --run --from docs/studies/results      # measure the missing results
python3 studies/report --verdicts docs/studies/results/verdicts.md docs/studies/results
```

A result file of `lab jitter` or of a capture contains one run, so three subfolders are needed, such as `jitter-1` to
`jitter-3`; figures about three frame rates need three captures at each rate. Each criterion and its reason are on this
page before the result is added. "Chosen" lists differences from the paper, and decisions that were made after the
measured figure was known. A verdict needs the 95 % confidence interval of at least three runs;
`studies/report/README.md` has the rules.
"""
NO_RESULTS = "No result files are kept yet, so each figure that this project can measure is marked \"not measured\"."


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def table(heads, rows):
    lines = ["|" + "|".join(f" {cell(text)} " for text in row) + "|" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def kept(results):
    """A table of the kept results: command, commit, machine and date of each file."""
    if not results.all:
        return NO_RESULTS
    rows = []
    for result in results.all:
        machine = result.get("machine", {})
        rows.append(
            [
                result.place,
                f"`{result.get('command', '')}`",
                (result.get("commit") or "unknown")[:12],
                f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores, Linux {machine.get('kernel', '?')}",
                result.get("date", "")[:10],
            ]
        )
    return table(["file", "command", "commit", "machine", "date"], rows)


def markdown(results):
    """The whole document."""
    parts = [HEAD, "## Kept results\n", kept(results) + "\n"]
    for paper, rows in page.verdicts(results):
        marks = [verdict.mark for _, verdict in rows]
        counts = ", ".join(f"{marks.count(mark)} {mark.value}" for mark in Mark if mark in marks)
        lines = [
            [claim.place, claim.text, page.criterion(claim), f"**{verdict.mark.value}**: {verdict.why}"]
            for claim, verdict in rows
        ]
        parts.append(f"## {paper}\n\n{counts}.\n")
        parts.append(table(["figure", "claim", "counts as reproduced", "verdict"], lines) + "\n")
    return "\n".join(parts)
