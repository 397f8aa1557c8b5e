"""The messages that docs/guides/problems.md quotes occur in the programs' source code."""

import pathlib
import re

import repository

PAGE = pathlib.Path("docs/guides/problems.md")
# The variable parts of a quoted message: placeholders, and numbers, which are placeholders in the source code.
VARIABLE = re.compile(r"…|\b(?:NAME|ADDRESS|PROGRAM)\b|\d+")
# Shorter fragments are not checked, because they would occur in the source code by chance.
SHORTEST = 6


def check():
    sources = "\n".join(strings(path) for path in repository.tracked() if path.suffix == ".rs")
    quoted = 0
    for number, line in enumerate(repository.text(PAGE).splitlines(), 1):
        # Messages are quoted only in the first column of a table.
        column = line.split(" | ")[0] if line.startswith("| ") else ""
        for message in re.findall(r"`([^`]+)`", column):
            for fragment in map(str.strip, VARIABLE.split(message)):
                if len(fragment) >= SHORTEST:
                    quoted += 1
                    if fragment not in sources:
                        yield f"{PAGE}:{number}: no program prints '{fragment}'"
    if quoted < 20:
        yield f"{PAGE}: only {quoted} messages were found: has its form changed?"


def strings(path):
    """The text of a source file, with each string in one line."""
    text = re.sub(r"\\\n\s*", "", repository.text(path))
    return text.replace('\\"', '"').replace("\\'", "'")
