"""packaging/release makes correct releases of a temporary clone, and changes nothing if it fails or is interrupted."""

import repository


def check():
    # The tests run cargo without a network, so the dependencies are fetched first.
    for manifest in (*repository.WORKSPACES, "fuzz/Cargo.toml"):
        yield from repository.passes("cargo", "fetch", "--locked", "--quiet", "--manifest-path", manifest)
    tests = str(repository.ROOT / "packaging/test")
    yield from repository.passes("python3", "-B", "-m", "unittest", "discover", "-s", tests)
