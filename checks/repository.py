"""Shared functions of the checks: tracked files, documents, crates and programs."""

import functools
import json
import os
import pathlib
import re
import subprocess
from typing import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The workspaces of the product and of the studies.
WORKSPACES = ("Cargo.toml", "studies/Cargo.toml")
TARGET = pathlib.Path(os.path.abspath(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"))
# The environment of builds that cannot reuse the artefacts of the programs and tests. With a separate target folder,
# these builds neither block nor wait for the builds of the programs and tests.
APART = {"CARGO_TARGET_DIR": str(TARGET / "checks")}


def run(*command: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs a command in the root, and captures its output as text."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
    )


def passes(*command: str, **environment: str) -> Iterator[str]:
    """Yields the command's last lines if it fails."""
    done = run(*command, **environment)
    if done.returncode != 0:
        yield f"`{' '.join(command)}` failed with {done.returncode}:"
        yield from ("  " + line for line in done.stdout.splitlines()[-60:])


@functools.cache
def tracked() -> list[pathlib.Path]:
    """Every file that git tracks or would track, as a path from the root."""
    done = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    paths = (pathlib.Path(name) for name in done.stdout.split("\0") if name)
    files = sorted(path for path in set(paths) if (ROOT / path).is_file())
    if done.returncode != 0 or not files:
        # With an empty list, every check of files would pass.
        raise SystemExit(f"`git ls-files` lists no file here: {done.stdout[:500].strip()}")
    return files


def text(path: pathlib.Path) -> str:
    """The file's text; empty if it is not text."""
    data = (ROOT / path).read_bytes()
    return "" if b"\0" in data[:4096] else data.decode(errors="replace")


def documents() -> list[pathlib.Path]:
    """The documents that describe the current state: all except the change log."""
    return [p for p in tracked() if p.suffix == ".md" and p.name != "CHANGELOG.md"]


def code_in(document: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Line number and text of each code span and each line of a fenced or indented block."""
    fenced = False
    for number, line in enumerate(text(document).splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield number, line
        else:
            yield from ((number, span) for span in re.findall(r"`([^`]+)`", line))


@functools.cache
def metadata(manifest: str) -> dict:
    """`cargo metadata` of one of the workspaces with all its dependencies."""
    done = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", manifest],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"`cargo metadata --locked` of {manifest} failed; see its messages above")
    return json.loads(done.stdout)


def packages(manifest: str, members: bool) -> list[dict]:
    """The members of a workspace or, if `members` is false, its external dependencies."""
    inside = set(metadata(manifest)["workspace_members"])
    return [p for p in metadata(manifest)["packages"] if (p["id"] in inside) == members]


def members(manifests=WORKSPACES) -> list[dict]:
    """The packages of the workspaces."""
    return [package for manifest in manifests for package in packages(manifest, members=True)]


@functools.cache
def build():
    """Builds the programs and tests of each workspace with one command: two would compile the dependencies twice."""
    for manifest in WORKSPACES:
        command = ("cargo", "test", "--quiet", "--locked", "--manifest-path", manifest)
        done = run(*command, "--workspace", "--no-run")
        if done.returncode != 0:
            raise SystemExit(done.stdout)


def program(name: str = "openuvr") -> pathlib.Path:
    """The path of a built program. All programs are built, since `openuvr` starts others."""
    build()
    return TARGET / "debug" / name


def library(name: str) -> pathlib.Path:
    """The built shared library of the crate `name`."""
    build()
    return TARGET / "debug" / "deps" / f"lib{name}.so"
