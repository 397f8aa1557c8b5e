"""The parts of the page: sections with paragraphs, tables and plots."""

import re
from dataclasses import dataclass, field

from .estimate import Estimate, of_runs
from .results import value

ABSENT = "–"


@dataclass
class Cell:
    """A text, and its class in the style sheet (`yes`, `no` or `open`), or no class."""

    text: str
    kind: str = ""


@dataclass
class Table:
    heads: list[str]
    rows: list[list]
    title: str = ""

    def cells(self):
        return [[cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row] for row in self.rows]


@dataclass
class Plot:
    name: str
    figure: object


@dataclass
class Section:
    title: str
    # Paragraphs, tables and plots, in the order of the page.
    parts: list = field(default_factory=list)

    def text(self, words):
        self.parts.append(words)
        return self

    def table(self, heads, rows, title=""):
        rows = list(rows)
        if rows:
            self.parts.append(Table(list(heads), rows, title))
        return self

    def plot(self, name, figure):
        if figure is not None:
            self.parts.append(Plot(re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"), figure))
        return self

    def plots(self):
        return [part for part in self.parts if isinstance(part, Plot)]


def number(data, path, digits=2, scale=1.0):
    """The number at a path, as text."""
    found = value(data, path)
    return ABSENT if found is None else f"{found * scale:.{digits}f}"


def percent(data, path, digits=1):
    found = value(data, path)
    return ABSENT if found is None else f"{found * 100:.{digits}f} %"


def estimate(data, path, digits=2, scale=1.0):
    """The mean and the confidence interval of the repeated measurement at a path, as text."""
    found = of_runs(value(data, path))
    if found is None:
        return ABSENT
    half = None if found.half is None else found.half * scale
    return Estimate(found.mean * scale, half, found.runs).text(digits)


def target(measured, bound, at_least=False, withheld=None):
    """The cell that states whether a target is met."""
    if withheld:
        return Cell(withheld, "open")
    if measured is None or bound is None:
        return Cell("not measured", "open")
    met = measured >= bound if at_least else measured <= bound
    return Cell("met", "yes") if met else Cell("missed", "no")


def goal(verdict, result):
    """The row of a target from a result file: quantity, measured value, bound, verdict. A quick run is not judged."""
    least = bool(verdict.get("at_least"))
    unit, bound = verdict.get("unit", ""), value(verdict, "target/pass")
    withheld = "quick run" if result.is_quick else verdict.get("withheld")
    judged = target(verdict.get("measured"), bound, least, withheld)
    limit = ABSENT
    if bound is not None:
        # A bound may be the product of a goal and a measured value, with any number of digits.
        shown = round(bound, 2) if abs(bound) >= 1 else bound
        limit = f"{'≥' if least else '≤'} {shown:g} {unit}"
    return [verdict.get("what"), f"{number(verdict, 'measured')} {unit}", limit, judged]
