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
    "pads": {"media"},
    "xr": {"proto", "media", "runtime"},
    # OpenXR applications of ours: nothing that a runtime is.
    "vr": {"proto", "media"},
    "terminal": {"proto", "runtime"},
    # These two alone have an async runtime: `ONLY` below.
    "gateway": {"proto", "runtime"},
    # It starts sessions as processes of `openuvr`, and is linked with nothing that streams.
    "portal": {"proto", "terminal"},
    "cli": {"proto", "net", "media", "runtime", "terminal", "gateway", "vr"},
    # `cli` is a program, and measured as one. The one exception: `openuvr-bench host` is its host with a
    # part replaced, which no process can do to another (docs/adr/0010).
    "bench": {"proto", "net", "media", "runtime", "lab", "terminal", "cli", "vr"},
}
# What a crate's tests may name besides: libraries that are built for programs that they start, and
# who attacks.
TESTED = {
    "cli": {"capi", "hook", "lab", "pads", "xr"},
    "gateway": {"lab", "media", "net"},
}
PREFIX = "openuvr-"
# Third-party crates that only these crates may name: no async runtime in a game, or between a slice and its
# datagram; no database in a stream.
ONLY = {
    "tokio": {"gateway", "portal"},
    "hyper": {"gateway", "portal"},
    "str0m": {"gateway"},
    "axum": {"portal"},
    "sqlx": {"portal"},
}


def check():
    for package in repository.members():
        crate = package["name"].removeprefix(PREFIX)
        if crate not in ALLOWED:
            yield f"{crate}: not in the table of checks/layers.py"
            continue
        for dependency in package["dependencies"]:
            name = dependency["name"]
            if crate not in ONLY.get(name, {crate}):
                yield f"{crate} must not depend on {name}: only {', '.join(sorted(ONLY[name]))} may"
            allowed = ALLOWED[crate]
            if dependency["kind"] == "dev":
                allowed = allowed | TESTED.get(crate, set())
            if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in allowed:
                kind = dependency["kind"] or "normal"
                yield f"{crate} must not depend on {name.removeprefix(PREFIX)} ({kind} dependency)"
