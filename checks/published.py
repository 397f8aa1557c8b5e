"""The archive of each published crate contains its sources and documents, the files that these name, and no others.

Cargo makes the archives, which also shows that each dependency can be published. `./dev release` compiles the archives,
which takes minutes.
"""

import pathlib
import re
import tarfile

import repository

# The fields of a manifest that a registry shows.
FIELDS = ("description", "license", "repository", "readme", "keywords", "categories")
# Files that cargo adds to an archive.
ADDED = {"Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"}
DOCUMENTS = {"README.md", "LICENSE-APACHE", "LICENSE-MIT"}
# A file that the code includes. The archive may lack a file with a module of tests, because crates that depend on the
# package do not compile its tests.
NAMED = re.compile(r'(?P<test>#\[cfg\(test\)\]\s*)?(?:\binclude(?:_str|_bytes)?!\(|#\[path =)\s*"(?P<path>[^"]+)"')


def check():
    published = {p["name"]: p for p in repository.members() if p["publish"] is None}
    if not published:
        yield "Cargo.toml: no crate is published, so nothing was checked"
        return
    for package in published.values():
        yield from described(package, published)
    words = [word for name in published for word in ("--package", name)]
    # `members` above has already fetched the dependencies.
    command = ("cargo", "package", "--quiet", "--no-verify", "--allow-dirty", "--locked", "--offline")
    failures = list(repository.passes(*command, *words, **repository.APART))
    yield from failures
    if not failures:
        for package in published.values():
            yield from contained(package)


def described(package, published):
    """Yields a problem for each missing field, and for each wrong dependency on another crate of the workspace."""
    name = package["name"]
    for field in FIELDS:
        if not package[field]:
            yield f"{name}: Cargo.toml has no {field}"
    for dependency in package["dependencies"]:
        other = dependency["name"]
        if dependency.get("path") and dependency["kind"] != "dev" and other not in published:
            yield f"{name}: depends on {other}, which is not published (publish = false)"
        if other in published and dependency["req"] != f"={package['version']}":
            yield f"{name}: requires {other} {dependency['req']}, not ={package['version']}"


def contained(package):
    """Yields a problem for each file that the archive lacks or should not contain."""
    folder = pathlib.Path(package["manifest_path"]).parent
    name = f"{package['name']}-{package['version']}"
    archive = pathlib.Path(repository.APART["CARGO_TARGET_DIR"], "package", f"{name}.crate")
    with tarfile.open(archive) as tar:
        inside = {member.name.removeprefix(f"{name}/") for member in tar.getmembers()}
    tracked = (repository.ROOT / path for path in repository.tracked())
    own = {str(path.relative_to(folder)) for path in tracked if path.is_relative_to(folder)}
    wanted = ADDED | DOCUMENTS | {path for path in own if path.startswith("src/") or path == "build.rs"}
    for path in sorted(wanted - inside):
        yield f"{name}: the archive lacks {path}"
    for path in sorted(inside - wanted):
        yield f"{name}: the archive contains {path}, which is neither a source nor a document"
    for source in sorted(path for path in inside if path.endswith(".rs")):
        for found in NAMED.finditer((folder / source).read_text()):
            named = (folder / source).parent.joinpath(found["path"]).resolve()
            there = named.is_relative_to(folder) and str(named.relative_to(folder)) in inside
            if not there and not found["test"]:
                yield f"{name}: {source} names {found['path']}, which the archive lacks"
