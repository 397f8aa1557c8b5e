"""Crates depend on each other only along the edges of ARCHITECTURE.md."""

import repository

# Crate -> the crates of this workspace it may name. A new crate is a new line.
ALLOWED = {
    "proto": set(),
    "net": {"proto"},
    "media": {"proto"},
    "runtime": {"proto", "net", "media"},
    "lab": {"proto"},
    "capi": {"proto", "net", "media", "runtime"},
    "hook": {"proto", "net", "media", "runtime"},
    # The hook is built for its tests, and not linked.
    "cli": {"proto", "net", "media", "runtime", "lab", "hook"},
}
PREFIX = "openuvr-"


def check():
    for package in repository.members():
        crate = package["name"].removeprefix(PREFIX)
        if crate not in ALLOWED:
            yield f"{crate}: not in the table of checks/layers.py"
            continue
        for dependency in package["dependencies"]:
            name = dependency["name"]
            if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in ALLOWED[crate]:
                kind = dependency["kind"] or "normal"
                yield f"{crate} must not depend on {name.removeprefix(PREFIX)} ({kind} dependency)"
