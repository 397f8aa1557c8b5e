"""packaging/libopenuvr.symbols lists the functions of openuvr.h, so that no function disappears unnoticed."""

import pathlib
import re

import repository

HEADER = pathlib.Path("crates/capi/include/openuvr.h")
LIST = pathlib.Path("packaging/libopenuvr.symbols")


def check():
    # A declaration begins in the first column, and its name is followed by its arguments.
    declared = set(re.findall(r"^\w[^\n;{#]*?\b(openuvr_\w+)\(", repository.text(HEADER), re.M))
    listed = set(re.findall(r"^ (openuvr_\w+)@", repository.text(LIST), re.M))
    if not declared:
        yield f"{HEADER}: no function was found: has its form changed?"
    for name in sorted(declared - listed):
        yield f"{LIST} lacks {name}: add it, with the version in which it appears"
    for name in sorted(listed - declared):
        yield f"{LIST} lists {name}, which {HEADER} does not declare: a removal needs a new soname"
