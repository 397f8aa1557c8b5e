"""Figures in documents match the kept results and the papers' data.

`docs/studies/results/verdicts.md` is the reporter's output for the result files in its folder. In a table, a column
whose heading contains the word "paper", "slides" or "study" contains only numbers from `studies/report/papers`.
"""

import ast
import re

import repository

# The distribution's Python, because the reporter needs packages of the distribution.
PYTHON = "/usr/bin/python3"
RESULTS = "docs/studies/results"
VERDICTS = f"{RESULTS}/verdicts.md"
PAPERS = "studies/report/papers"
HEADING = re.compile(r"\b(paper|slides|study)\b", re.I)
# Matches 0.82, 26 and 63 400: spaces may separate groups of three digits.
NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.])|(?<![\w.])\d+(?:\.\d+)?")


def check():
    yield from verdicts()
    known = papers_numbers()
    for document in repository.documents():
        if str(document).startswith("docs/"):
            yield from quoted(document, repository.text(document), known)


def verdicts():
    """Yields a problem unless the document is the reporter's output for the kept results."""
    done = repository.run(PYTHON, "-B", "studies/report", "--verdicts", "-", RESULTS)
    if done.returncode != 0:
        yield f"the reporter failed: {done.stdout.strip()}"
    elif done.stdout != repository.text(repository.pathlib.Path(VERDICTS)):
        yield f"{VERDICTS} is stale: run python3 studies/report --verdicts {VERDICTS} {RESULTS}"


def papers_numbers():
    """All numbers in the papers' files, including those in strings."""
    numbers = set()
    for path in sorted((repository.ROOT / PAPERS).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, (int, float)):
                    numbers.add(float(node.value))
                elif isinstance(node.value, str):
                    numbers.update(numbers_in(node.value.replace(",", "")))
    return numbers


def numbers_in(text):
    return [float(re.sub(r"\s", "", found)) for found in NUMBER.findall(text)]


def quoted(document, text, known):
    """Yields a problem for each number in a paper's column that is not in the papers' data."""
    columns = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not columns:
            columns = [bool(HEADING.search(cell)) for cell in cells]
            continue
        for cell, is_papers in zip(cells, columns):
            for found in numbers_in(cell) if is_papers else ():
                if found not in known:
                    yield f"{document}:{number}: {found:g} is not a figure of the papers ({PAPERS})"
