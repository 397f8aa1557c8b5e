"""All Rust code is formatted with rustfmt."""

import repository


def check():
    yield from repository.passes("cargo", "fmt", "--all", "--check")
    for manifest in ("fuzz/Cargo.toml", "probes/rust/Cargo.toml"):
        yield from repository.passes("cargo", "fmt", "--manifest-path", manifest, "--", "--check")
