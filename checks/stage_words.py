"""The stages in ARCHITECTURE.md match `Stage`, including their order and side."""

import pathlib
import re

import repository

SOURCE = pathlib.Path("crates/proto/src/trace.rs")
DOCUMENT = pathlib.Path("ARCHITECTURE.md")


def check():
    source = re.search(r"^stages! \{\n(.*?)^\}", repository.text(SOURCE), re.M | re.S)
    if not source:
        yield f"{SOURCE}: found no `stages! {{ … }}`"
        return
    meant = [f"{s} {side.lower()}" for s, side in re.findall(r"^ +(\w+) (\w+),$", source[1], re.M)]
    said = re.findall(r"^\| ([A-Z]\w+ \| (?:host|client)) \|", repository.text(DOCUMENT), re.M)
    said = [words.replace(" | ", " ") for words in said]
    for words in meant:
        if words not in said:
            yield f"{DOCUMENT}: missing stage {words}"
    for words in said:
        if words not in meant:
            yield f"{DOCUMENT}: unknown stage {words}, not in {SOURCE}"
    if sorted(meant) == sorted(said) and meant != said:
        yield f"{DOCUMENT}: the stages differ in order from {SOURCE}"
