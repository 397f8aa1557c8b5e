"""Modules of a crate have no cyclic dependencies.

For each module, the check looks for cycles among its children. A child counts together with its descendants. A module
and its own children may refer to each other: they are one unit in several files. A re-exported name (`pub use`) counts
where it is defined. Tests are ignored.
"""

import pathlib
import re
from typing import Iterator

import repository

# A module's path in its crate: `("wire", "video")` stands for `crate::wire::video`, and `()` for the crate's root.
Module = tuple[str, ...]

USE = re.compile(r"^[ \t]*((?:pub(?:\([a-z ]+\))? )?)use ([^;]*);", re.M)
# Paths in code and macros, including `pub(in crate::wire)`.
PATH = re.compile(r"(?<![\w:])(?:\$?crate|self|super)(?:::\w+)+")
# An item with `#[cfg(test)]`: a module in its own file, a module whose closing brace starts a line, or another item.
TEST = re.compile(r"#\[cfg\(test\)\]\s*(?:(?:pub )?mod \w+ \{.*?^\}|[^;{]*(?:;|\{.*?^\}))", re.M | re.S)
# Comments, and string and character literals, whichever starts first.
WORDS = re.compile(r"""//[^\n]*|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'""", re.S)


def check():
    sources = [*repository.ROOT.glob("crates/*/src"), *repository.ROOT.glob("studies/*/src")]
    for source in sorted(sources):
        yield from (f"{source.parent.name}: {line}" for line in circles_in(source))


def circles_in(source: pathlib.Path) -> Iterator[str]:
    code = {}
    files = {}
    for file in sorted(source.rglob("*.rs")):
        name = module_of(file.relative_to(source))
        if not set(name) & {"tests", "test"}:
            # `lib.rs` and `main.rs` of one crate are both its root.
            code[name] = code.get(name, "") + without_tests(file.read_text())
            files[name] = file.relative_to(repository.ROOT)
    passed_on = {name: re_exports(name, text, code) for name, text in code.items()}
    edges = {}
    for name, text in code.items():
        for path in paths_in(text):
            target = resolve(name, path, code, passed_on)
            edge = target is not None and between_siblings(name, target)
            if edge:
                edges.setdefault(edge, f"{files[name]} names {path}")
    for circle in circles(set(edges)):
        steps = zip(circle, circle[1:] + circle[:1])
        names = " -> ".join("::".join(name) for name in [*circle, circle[0]])
        uses = "; ".join(edges[step] for step in steps)
        yield f"{names} ({uses}): move the shared part below both"


def module_of(path: pathlib.Path) -> Module:
    parts = list(path.with_suffix("").parts)
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def without_tests(text: str) -> str:
    """The code without comments, literals and test code."""
    return TEST.sub("", WORDS.sub("", text))


def paths_in(text: str) -> Iterator[str]:
    for _, use in USE.findall(text):
        yield from expand(use)
    yield from PATH.findall(USE.sub("", text))


def expand(use: str) -> list[str]:
    """Expands `a::{b, c::{d as e}}` to `a::b` and `a::c::d as e`."""
    use = re.sub(r"\s+", " ", use).strip()
    brace = use.find("{")
    if brace < 0:
        return [use.removesuffix("::self")]
    prefix, inner = use[:brace], use[brace + 1 : use.rindex("}")]
    parts, depth, start = [], 0, 0
    for i, c in enumerate(inner):
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append(inner[start:i])
            start = i + 1
    parts.append(inner[start:])
    return [whole for part in parts if part.strip() for whole in expand(prefix + part.strip())]


def re_exports(name: Module, text: str, modules) -> dict[str, str]:
    """The re-exports of a module: the name, `*` for a whole module, and its path."""
    found = {}
    for visible, use in USE.findall(text):
        for path in expand(use) if visible else ():
            path, _, alias = path.partition(" as ")
            last = path.rsplit("::", 1)[-1]
            found[f"*{len(found)}" if last == "*" else alias or last] = path
    return found


def resolve(name: Module, path: str, modules, passed_on, depth: int = 0) -> Module | None:
    """The module that defines `path` as used in the module `name`; `None` for another crate."""
    words = path.partition(" as ")[0].replace("$", "").split("::")
    if words[0] == "crate":
        at, words = (), words[1:]
    elif words[0] in ("self", "super") or (*name, words[0]) in modules:
        at = name
    else:
        return None
    for i, word in enumerate(words):
        if word == "super":
            at = at[:-1]
        elif (*at, word) in modules:
            at = (*at, word)
        elif word != "self":
            behind = passed_on.get(at, {}).get(word)
            if behind is None or depth > 8:
                return at
            rest = "::".join([behind, *words[i + 1 :]])
            return resolve(at, rest, modules, passed_on, depth + 1) or at
    return at


def between_siblings(name: Module, target: Module) -> tuple[Module, Module] | None:
    """The two children of the nearest common ancestor that form the dependency."""
    depth = 0
    while depth < min(len(name), len(target)) and name[depth] == target[depth]:
        depth += 1
    if depth in (len(name), len(target)):
        return None
    return name[: depth + 1], target[: depth + 1]


def circles(edges: set[tuple[Module, Module]]) -> Iterator[list[Module]]:
    """For each module on a cycle, a shortest cycle through it. Yields each cycle once."""
    following = {}
    for a, b in edges:
        following.setdefault(a, set()).add(b)
    seen = set()
    for start in sorted(following):
        ways, reached = [[start]], {start}
        while ways:
            way = ways.pop(0)
            after = sorted(following.get(way[-1], ()))
            if start in after:
                if frozenset(way) not in seen:
                    seen.add(frozenset(way))
                    yield way
                break
            for step in after:
                if step not in reached:
                    reached.add(step)
                    ways.append([*way, step])
