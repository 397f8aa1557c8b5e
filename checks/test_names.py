"""A test's name is at most 60 characters."""

import re

import repository

LONGEST = 60
TEST = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)")


def check():
    for path in repository.tracked():
        if path.suffix != ".rs":
            continue
        for name in TEST.findall(repository.text(path)):
            if len(name) > LONGEST:
                yield f"{path}: {name} has {len(name)} characters"
