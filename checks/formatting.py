"""rustfmt would change nothing."""

import repository


def check():
    yield from repository.passes("cargo", "fmt", "--all", "--check")
    for manifest in ("fuzz/Cargo.toml", "probes/rust/Cargo.toml"):
        yield from repository.passes("cargo", "fmt", "--manifest-path", manifest, "--", "--check")
