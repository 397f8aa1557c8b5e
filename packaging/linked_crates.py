"""The crates in a package's programs and libraries, from `cargo metadata`."""

import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "checks"))

import repository  # noqa: E402


def linked(manifest, crates):
    """The packages from crates.io that these crates link on Linux, directly or indirectly."""
    return [package for package in contained(manifest, crates) if package["source"]]


def contained(manifest, crates):
    """These crates, and all packages that they link on Linux, directly or indirectly."""
    packages = {package["id"]: package for package in repository.metadata(manifest)["packages"]}
    waiting = [key for key, package in packages.items() if package["name"] in crates]
    if len(waiting) != len(crates):
        raise SystemExit(f"{manifest} lacks some of the crates {' '.join(crates)}: correct packaging/build")
    seen = set()
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting.extend(dependencies(manifest)[key])
    return sorted((packages[key] for key in seen), key=lambda package: (package["name"], package["version"]))


@functools.cache
def dependencies(manifest):
    """For the id of each package: the ids of the packages that it links on Linux."""
    nodes = repository.metadata(manifest)["resolve"]["nodes"]
    return {
        node["id"]: [used["pkg"] for used in node["deps"] if any(_on_linux(kind) for kind in used["dep_kinds"])]
        for node in nodes
    }


def _on_linux(kind):
    """Whether a dependency is linked on Linux, and is not only for builds, tests or another system."""
    target = kind["target"] or ""
    return kind["kind"] is None and not re.match(r"cfg\((windows|target_os = \"(?!linux))|.*-(windows|apple)-", target)
