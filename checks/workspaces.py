"""The studies' workspace has the same versions, lints and profiles as the product's workspace."""

import re

import repository

PRODUCT, STUDIES = repository.WORKSPACES
# Only published crates need these fields. The studies are not published.
PRODUCT_ONLY = {"include", "repository"}


def check():
    product, studies = (tables(manifest) for manifest in repository.WORKSPACES)
    locks = [versions(manifest) for manifest in repository.WORKSPACES]
    for name, lines in sorted(studies.items()):
        if name == "workspace":
            continue
        there = product.get(name, [])
        for line in lines:
            if line not in there and not line.startswith("openuvr-"):
                if name != "workspace.dependencies" or key(line) in map(key, there):
                    yield f"{STUDIES}: [{name}] differs from {PRODUCT}: {line}"
        if name != "workspace.dependencies":
            # Cargo warns if a profile names a package that the workspace does not have.
            absent = set(locks[0]) - set(locks[1]) if name.endswith(".package") else set()
            absent |= PRODUCT_ONLY if name == "workspace.package" else set()
            missing = (line for line in there if line not in lines and key(line) not in absent)
            yield from (f"{STUDIES}: [{name}] lacks {line}" for line in missing)
    for name in sorted(set(product) - set(studies)):
        yield f"{STUDIES}: lacks [{name}]"
    for name in sorted(set(locks[0]) & set(locks[1])):
        for version in sorted(locks[1][name] - locks[0][name]):
            # cargo treats incompatible versions as different packages.
            if series(version) in map(series, locks[0][name]):
                yield f"studies/Cargo.lock: {name} {version} is not the product's version"


def key(line):
    return line.partition("=")[0].strip()


def series(version):
    """The part of a version that compatible versions share: `1`, `0.2`, `0.0.3`."""
    return re.match(r"(?:0\.)*[1-9]\d*|0\.0\.0", version)[0]


def tables(manifest):
    """The tables of a manifest, each with its lines without comments."""
    found, name = {}, ""
    for line in repository.text(repository.pathlib.Path(manifest)).splitlines():
        line = line.partition(" #")[0].strip()
        if table := re.fullmatch(r"\[(.+)\]", line):
            name = table[1]
            found[name] = []
        elif line and not line.startswith("#"):
            found[name].append(line)
    return found


def versions(manifest):
    """The versions of each package in a lock file."""
    lock = repository.pathlib.Path(manifest).with_name("Cargo.lock")
    found = {}
    packages = re.findall(r'^name = "(.+)"\nversion = "(.+)"$', repository.text(lock), re.M)
    for name, version in packages:
        found.setdefault(name, set()).add(version)
    return found
