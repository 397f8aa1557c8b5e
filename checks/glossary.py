"""Each term of `docs/glossary.md` has one line, and documents use none of the avoided terms."""

import collections
import pathlib
import re

import repository

GLOSSARY = pathlib.Path("docs/glossary.md")
ROW = re.compile(r"^\| (?!word \||-)([^|]+?) \| ([^|]*)\|", re.MULTILINE)
# Terms that the glossary avoids ("Not: …"), except those with another meaning in documents.
NOT = re.compile(r"Not: ([^|]*)")
AMBIGUOUS = {"app", "game (unless it is one)", "image", "packet", "network", "certificate"}


def check():
    rows = ROW.findall(repository.text(GLOSSARY))
    if len(rows) < 20:
        yield f"{GLOSSARY}: found only {len(rows)} terms"
    words = collections.Counter(word.strip() for row, _ in rows for word in row.split(","))
    for word, lines in words.items():
        if lines > 1:
            yield f"{GLOSSARY}: '{word}' has {lines} lines"
    avoided = {word.strip() for _, text in rows for list in NOT.findall(text) for word in list.split(",")}
    avoided = re.compile(rf"\b({'|'.join(map(re.escape, sorted(avoided - AMBIGUOUS)))})s?\b", re.I)
    for document in repository.documents():
        for number, line in enumerate(repository.text(document).splitlines(), 1):
            for word in avoided.findall(line):
                if document != GLOSSARY:
                    yield f"{document}:{number}: '{word}' is a term that {GLOSSARY} avoids"
