"""Crates depend on each other only along the edges of ARCHITECTURE.md."""

import repository

# The allowed dependencies of each crate of this workspace. A new crate requires a new line.
ALLOWED = {
    "proto": set(),
    "net": {"proto"},
    "devtools": set(),
    "pinning": set(),
    "xserver": {"proto"},
    "media": {"proto"},
    "runtime": {"proto", "net", "media"},
    "lab": {"proto"},
    "capi": {"proto", "net", "media", "runtime"},
    "hook": {"proto", "net", "media", "runtime"},
    "pads": {"media"},
    "xr": {"proto", "media", "runtime"},
        # OpenXR applications: independent of the runtime.
    "vr": {"proto", "media"},
    "terminal": {"proto", "runtime"},
        # Only these two have an async runtime: `ONLY` below.
    "gateway": {"pinning", "proto", "runtime"},
        # It starts sessions as processes of `openuvr`, and links no streaming code.
    "portal": {"pinning", "proto", "terminal"},
    "cli": {"pinning", "proto", "net", "media", "runtime", "terminal", "gateway", "vr", "xserver"},
        # `cli` is a program, and measured as a process. The only exception: `openuvr-bench host` is its host with some parts
        # replaced, which is impossible from another process (docs/adr/0010).
    "bench": {"proto", "net", "media", "runtime", "lab", "terminal", "cli", "devtools", "vr", "xserver"},
}
# Additional crates for a crate's tests: libraries for the programs that they start, and attackers.
TESTED = {
    "cli": {"capi", "devtools", "hook", "lab", "pads", "xr"},
    "gateway": {"devtools", "lab", "media", "net", "xserver"},
    "media": {"xserver"},
    "portal": {"devtools"},
}
PREFIX = "openuvr-"
# Third-party crates that only these crates may use: no async runtime in a game, or between a slice and its datagram; no
# database in a streaming process.
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
            yield f"{crate}: missing in the table of checks/layers.py"
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
