"""Inside a crate, no module depends on one that depends on it: what two need lies below both.

Compared are the children of each module, each with all that is below it. A module and its own children may
name each other: they are one idea in several files. Tests are not looked at.
"""

import re

import repository

# Paths that begin in this crate, also within braces: `use crate::{wire::video, time}`.
USE = re.compile(r"^\s*(?:pub(?:\([a-z ]+\))? )?use ((?:crate|self|super)\b[^;]*);", re.M)
PATH = re.compile(r"\b(?:crate|super)(?:::[A-Za-z_0-9]+)+")
COMMENT = re.compile(r"//.*$", re.M)


def check():
    for source in sorted((repository.ROOT / "crates").glob("*/src")):
        modules = {}
        for file in sorted(source.rglob("*.rs")):
            name = module_of(file.relative_to(source))
            if not set(name) & {"tests", "test"}:
                modules[name] = file
        edges = {}
        for name, file in modules.items():
            for target, path in targets(name, without_tests(file.read_text()), modules):
                edge = between_siblings(name, target)
                if edge:
                    edges.setdefault(edge, (file.relative_to(repository.ROOT), path))
        for circle in circles({pair for pair in edges}):
            steps = zip(circle, circle[1:] + circle[:1])
            uses = "; ".join(f"{edges[step][0]} names {edges[step][1]}" for step in steps)
            names = " -> ".join("::".join(name) for name in [*circle, circle[0]])
            yield f"{source.parent.name}: {names} ({uses}): move what both need below both"


def module_of(path):
    parts = list(path.with_suffix("").parts)
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def without_tests(text):
    """Without comments, and without what is only compiled for tests."""
    text = COMMENT.sub("", text)
    return re.sub(r"#\[cfg\(test\)\]\s*(?:mod \w+ \{.*?^\}|[^;{]*;)", "", text, flags=re.M | re.S)


def targets(name, text, modules):
    """The modules that are named, each with the path that names it."""
    paths = []
    for use in USE.findall(text):
        paths.extend(expand(use.strip()))
    paths.extend(PATH.findall(USE.sub("", text)))
    for path in paths:
        words = path.split("::")
        base = {"crate": (), "self": name, "super": name[:-1]}.get(words[0])
        if base is None:
            continue
        words = words[1:]
        while words and words[0] == "super":
            base, words = base[:-1], words[1:]
        target = base
        for word in words:
            if (*target, word) not in modules:
                break
            target = (*target, word)
        if target in modules and target != name:
            yield target, path


def expand(use):
    """`a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`."""
    use = re.sub(r"\s+", " ", use)
    use = re.sub(r" as \w+", "", use)
    brace = use.find("{")
    if brace < 0:
        return [use.strip()]
    prefix, inner = use[:brace], use[brace + 1 : use.rindex("}")]
    parts, depth, start = [], 0, 0
    for i, c in enumerate(inner):
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append(inner[start:i])
            start = i + 1
    parts.append(inner[start:])
    return [whole for part in parts if part.strip() for whole in expand(prefix + part.strip())]


def between_siblings(name, target):
    """The two children of the nearest module above both through which one depends on the other."""
    depth = 0
    while depth < min(len(name), len(target)) and name[depth] == target[depth]:
        depth += 1
    if depth in (len(name), len(target)):
        return None
    return name[: depth + 1], target[: depth + 1]


def circles(edges):
    """A shortest circle for each module that is on one, each circle once."""
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
                if not seen & {frozenset(way)}:
                    seen.add(frozenset(way))
                    yield way
                break
            for step in after:
                if step not in reached:
                    reached.add(step)
                    ways.append([*way, step])
