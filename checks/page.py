"""Each checked-in page matches a build of its source, and the constants of the gateway's page match the protocol."""

import os
import pathlib
import re
import shutil
import tempfile

import repository

PAGE = pathlib.Path("crates/gateway/page")
PORTAL = pathlib.Path("crates/portal/page")
WIRE = pathlib.Path("crates/proto/src/wire/control.rs")
NEGOTIATE = pathlib.Path("crates/proto/src/control/negotiate.rs")
TRACE = pathlib.Path("crates/proto/src/trace.rs")
LOGIN = pathlib.Path("crates/gateway/src/login.rs")


def check():
    yield from words()
    for page in (PAGE, PORTAL):
        yield from built(page)


def words():
    """Compares the constants that both Rust and TypeScript define."""
    wire = repository.text(PAGE / "src/wire.ts")
    kinds = dict(re.findall(r"pub\(super\) const (\w+): u8 = (\d+);", repository.text(WIRE)))
    # In `9 => Negotiation::ClipboardPiece(`, 9 is the constant that the page calls CLIPBOARD_PIECE.
    for number, name in re.findall(r"^ +(\d+) => Negotiation::(\w+)", repository.text(NEGOTIATE), re.M):
        kinds[re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()] = number
    kinds["CURSOR_SHAPE"] = re.search(r"^ +(\d+) => \{(?:(?!=>).)*CursorShape", repository.text(NEGOTIATE), re.M | re.S)[1]
    for name, number in re.findall(r"^export const (\w+) = (\d+);", wire, re.M):
        if name != "MAX_EVENTS" and kinds.get(name) != number:
            yield f"{PAGE}/src/wire.ts: {name} is {number}, but {kinds.get(name)} in Rust"
    stages = re.search(r"^stages! \{\n(.*?)^\}", repository.text(TRACE), re.M | re.S)[1]
    stages = re.findall(r"^ +(\w+) (?:Host|Client),$", stages, re.M)
    number = int(re.search(r"^const SUBMITTED = (\d+);", wire, re.M)[1])
    if stages[number] != "Submitted":
        yield f"{PAGE}/src/wire.ts: stage {number} is {stages[number]}, not Submitted"
    shown = re.search(r"^const STAGES = \[(.*?)\]", repository.text(PAGE / "src/figures.ts"), re.M)
    for word in re.findall(r'"(\w+)"', shown[1]):
        if word not in stages:
            yield f"{PAGE}/src/figures.ts: unknown stage {word}"
    purpose = re.search(r'PURPOSE: &str = "(.*?)"', repository.text(LOGIN))[1]
    if f'"{purpose}"' not in repository.text(PAGE / "src/login.ts"):
        yield f"{PAGE}/src/login.ts: the signature purpose differs from PURPOSE in {LOGIN}"


def built(page):
    """Compares dist with a build of the page. Without node or its packages, skips this page, or fails if CI=true."""
    vite = repository.ROOT / page / "node_modules/.bin/vite"
    if not shutil.which("node") or not vite.exists():
        skipped = f"{page}/dist is not compared: node or its packages are missing; run npm install --no-save in {page}"
        if os.environ.get("CI") == "true":
            yield skipped
        else:
            print(f"  {skipped}")
        return
    here = repository.ROOT / page
    with tempfile.TemporaryDirectory() as folder:
        yield from repository.passes(str(here / "node_modules/.bin/tsc"), "--noEmit", "-p", str(here))
        out = ["build", str(here), "--outDir", folder, "--logLevel", "error"]
        yield from repository.passes(str(vite), *out, "--config", str(here / "vite.config.js"))
        made = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
    there = {path.name: path.read_bytes() for path in (here / "dist").iterdir()}
    for name in sorted(made.keys() | there.keys()):
        if made.get(name) != there.get(name):
            yield f"{page}/dist/{name} differs from a build of the source: run npm run build in {page}"
