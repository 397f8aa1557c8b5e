"""Releases of a temporary clone: versions, change log, tag, hashes and signature; refusals and interruptions."""

import repository


def check():
    # The tests run cargo without a network, so the dependencies are fetched first.
    for manifest in (*repository.WORKSPACES, "fuzz/Cargo.toml"):
        yield from repository.passes("cargo", "fetch", "--locked", "--quiet", "--manifest-path", manifest)
    tests = str(repository.ROOT / "packaging/test")
    yield from repository.passes("python3", "-B", "-m", "unittest", "discover", "-s", tests)
