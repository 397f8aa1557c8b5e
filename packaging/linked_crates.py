"""The crates in a package's programs and libraries, from `cargo metadata`."""

import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "checks"))

import repository  # noqa: E402


def linked(manifest, crates):
    """The packages from crates.io that these crates link for Linux, directly or through others."""
    return [package for package in contained(manifest, crates) if package["source"]]


def contained(manifest, crates):
    """The crates themselves, and all packages that they link for Linux, directly or through others."""
    packages = {package["id"]: package for package in repository.metadata(manifest)["packages"]}
    waiting = [key for key, package in packages.items() if package["name"] in crates]
    if len(waiting) != len(crates):
        raise SystemExit(f"{manifest} has not all of the crates {' '.join(crates)}: correct packaging/build")
    seen = set()
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting.extend(dependencies(manifest)[key])
    return sorted((packages[key] for key in seen), key=lambda package: (package["name"], package["version"]))


@functools.cache
def dependencies(manifest):
    """The ids of the packages that each package of the workspace links, by its own id."""
    nodes = repository.metadata(manifest)["resolve"]["nodes"]
    return {
        node["id"]: [used["pkg"] for used in node["deps"] if any(_on_linux(kind) for kind in used["dep_kinds"])]
        for node in nodes
    }


def _on_linux(kind):
    """Whether a dependency is linked, and not only for another system."""
    target = kind["target"] or ""
    return kind["kind"] is None and not re.match(r"cfg\((windows|target_os = \"(?!linux))|.*-(windows|apple)-", target)
