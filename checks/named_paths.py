"""Every path in a document exists."""

import itertools
import re

import repository

# A word that begins with one of these folders is a path of this repository. A path may contain {a,b}, `*`, and a
# segment with the placeholder NAME or NNNN. If it contains a placeholder, only the folder before that segment must
# exist.
FOLDERS = r"(?:\.ci|checks|crates|docs|examples|fuzz|packaging|plugins|studies(?=/(?:bench|lab|probes)/)|vectors|web)"
PATH = re.compile(rf"(?<![\w/.@-])(?:\./)?({FOLDERS}/[\w./{{}},*-]*)")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def check():
    for document in repository.documents():
        for number, line in enumerate(repository.text(document).splitlines(), 1):
            for word in PATH.findall(line):
                for path in braces(word.rstrip(".,")):
                    if not exists(repository.ROOT, path):
                        yield f"{document}:{number}: missing path {path}"
            for link in LINK.findall(line):
                if "://" not in link and not exists((repository.ROOT / document).parent, link):
                    yield f"{document}:{number}: broken link to {link}"


def braces(word):
    """`a/{b,c}` -> `a/b`, `a/c`."""
    parts = re.split(r"\{([^{}]*)\}", word)
    choices = [part.split(",") if at % 2 else [part] for at, part in enumerate(parts)]
    return ("".join(choice) for choice in itertools.product(*choices))


def exists(folder, path):
    fixed = itertools.takewhile(lambda part: not re.search("NAME|NNNN", part), path.split("/"))
    path = "/".join(fixed)
    return any(folder.glob(path.rstrip("/"))) if "*" in path else (folder / path).exists()
