"""rustfmt would change nothing."""

import repository


def check():
    yield from repository.passes("cargo", "fmt", "--all", "--check")
    yield from repository.passes(
        "cargo", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--", "--check"
    )
