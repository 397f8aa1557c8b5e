"""Crates depend on each other, and on certain third-party crates, only as the tables in checks/layers.py allow."""

import repository

# The allowed dependencies of each crate of both workspaces. A new crate requires a new line. The product does not
# depend on the studies (lab, bench).
ALLOWED = {
    "proto": set(),
    "devtools": set(),
    "gateway-settings": set(),
    "pinning": set(),
    "clock": {"proto"},
    "xserver": {"proto"},
    "net": {"proto", "clock"},
    "media": {"proto", "clock"},
    # The devices of a Wayland session. They are not part of `media`, because applications load `media`.
    "wayland": {"proto", "clock", "media"},
    # Displays without a window system. The keyboard layouts come from `wayland`.
    "kms": {"proto", "clock", "media", "wayland"},
    # The one crate with a Wayland server.
    "compositor": {"proto", "clock", "media", "xserver"},
    # The one crate that calls a desktop's portals.
    "desktop-portal": {"proto", "clock", "media", "wayland"},
    "ipc": {"proto"},
    "runtime": {"proto", "clock", "net", "media", "ipc"},
    "sim": {"proto"},
    # Starts real programs and watches them from outside: for tests, studies and the demo.
    "testbed": {"devtools", "proto", "clock", "net", "media", "runtime", "sim", "xserver"},
    "lab": {"proto", "clock", "sim", "testbed"},
    "capi": {"proto", "clock", "net", "media", "runtime"},
    "hook": {"proto", "clock", "net", "media", "runtime"},
    "pads": {"media"},
    "xr": {"proto", "clock", "media", "runtime"},
    # OpenXR applications: independent of the runtime.
    "vr": {"proto", "media"},
    "terminal": {"proto", "clock"},
    # Only `desktop-portal`, `gateway` and `portal` have an async runtime (see `ONLY` below).
    "gateway": {"gateway-settings", "pinning", "proto", "clock", "runtime"},
    # `moonlight` needs no async runtime, because it has few clients and few requests.
    "moonlight": {"proto", "clock", "runtime"},
    # `portal` starts sessions as processes of `openuvr`, and links no streaming code.
    "portal": {"pinning", "proto", "terminal"},
    # The parts of the program `openuvr`. Each has dependencies or unsafe code of its own, and none depends on
    # another part.
    "session": {"proto", "clock", "compositor", "net", "media", "runtime", "terminal", "xserver"},
    "scene": {"proto", "clock", "media", "runtime", "terminal"},
    "report": {"proto", "clock", "runtime", "terminal"},
    "discovery": {"proto", "clock", "net", "runtime", "terminal"},
    # Runs programs that create a radio link. It contains no streaming code.
    "access-point": {"proto", "terminal"},
    # Reads the files of game launchers. It contains no streaming code.
    "applications": {"terminal"},
    "portal-client": {"pinning", "proto", "clock", "runtime", "terminal"},
    # Changes the system as root. It runs no streaming code: it takes from `net` and `runtime` only values that they
    # need, such as the port and the buffer sizes.
    "setup": {"net", "runtime", "terminal"},
    "doctor": {"proto", "clock", "desktop-portal", "net", "media", "runtime", "terminal", "wayland"},
    "demo": {"proto", "clock", "net", "media", "runtime", "sim", "terminal", "testbed", "vr"},
    # The command line: parsing, settings, wiring and messages.
    "cli": {
        "pinning", "proto", "clock", "compositor", "desktop-portal", "kms", "net", "media", "runtime", "terminal", "gateway",
        "gateway-settings", "moonlight", "vr", "wayland",
        "access-point", "applications", "session", "scene", "report", "discovery", "portal-client", "doctor", "setup", "demo",
    },
    # `bench` starts the program of `cli` as a process, and measures it. Only the subcommand `openuvr-bench host` calls
    # `cli`, because it replaces some parts of the host, which is impossible from another process (docs/adr/0010).
    "bench": {"proto", "clock", "net", "media", "runtime", "sim", "testbed", "lab", "terminal", "cli", "xserver"},
}
# Additional dependencies of a crate's tests: libraries that the started programs load, and crates with which the tests
# control or attack these programs.
TESTED = {
    "cli": {"capi", "devtools", "hook", "pads", "sim", "testbed", "xr", "xserver"},
    "gateway": {"devtools", "media", "net", "sim", "testbed", "xserver"},
    "media": {"xserver"},
    "desktop-portal": {"testbed"},
    "wayland": {"xserver"},
    "moonlight": {"media"},
    "portal": {"devtools"},
}
PREFIX = "openuvr-"
# Third-party crates, each with the only crates that may use it. No async runtime may run in a game, or on the path from
# an encoded slice to its datagrams. No streaming process may contain a database.
ONLY = {
    "tokio": {"desktop-portal", "gateway", "portal"},
    "ashpd": {"desktop-portal"},
    "hyper": {"gateway", "portal"},
    "str0m": {"gateway"},
    "axum": {"portal"},
    "sqlx": {"portal"},
    "mdns-sd": {"discovery", "cli"},
    "drm": {"kms"},
    "smithay": {"compositor"},
    "wayland-client": {"wayland", "compositor", "scene"},
    "rusty_enet": {"moonlight"},
    "ureq": {"portal-client"},
    "qrcode": {"access-point"},
    "sd-notify": {"cli"},
}
# Packages that a program must not link, not even through other crates: a log-in server has no streaming code and no
# display.
UNLINKED = {
    "portal": {"openuvr-media", "openuvr-net", "openuvr-runtime", "x11rb"},
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
    for crate, banned in UNLINKED.items():
        for name in sorted(linked(PREFIX + crate) & banned):
            yield f"{crate} must not link {name}: see `cargo tree -p {PREFIX}{crate} -e normal -i {name}`"


def linked(name):
    """The names of all packages that a package of the product links, directly or through others."""
    product = repository.metadata(repository.WORKSPACES[0])
    nodes = {node["id"]: node for node in product["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in product["packages"]}
    waiting = [package["id"] for package in repository.members() if package["name"] == name]
    seen = set()
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return {names[package] for package in seen}
