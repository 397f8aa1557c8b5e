"""The crates' documentation builds without a warning."""

import repository


def check():
    yield from repository.passes(
        "cargo", "doc", "--quiet", "--workspace", "--no-deps", RUSTDOCFLAGS="-D warnings"
    )
