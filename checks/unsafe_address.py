"""`unsafe` occurs only in modules named `sys`, and in crates at a boundary to foreign code."""

import re

import repository

# Crates that consist of a C, Vulkan or OpenXR boundary.
BORDERS = {"capi", "hook", "pads", "xr"}


def check():
    for path in repository.tracked():
        if path.suffix != ".rs" or allowed(path):
            continue
        for number, line in enumerate(repository.text(path).splitlines(), 1):
            if re.search(r"\bunsafe\b", without_words(line)):
                yield f"{path}:{number}: `unsafe` outside a module named sys"


def allowed(path):
    parts = path.with_suffix("").parts
    return "sys" in parts or (parts[0] == "crates" and parts[1] in BORDERS)


def without_words(line):
    """The line without string literals and without a trailing comment."""
    return re.sub(r"//.*", "", re.sub(r'"(\\.|[^"\\])*"', '""', line))
