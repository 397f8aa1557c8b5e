"""All Rust code is formatted with rustfmt."""

import repository


def check():
    for manifest in repository.WORKSPACES:
        command = ("cargo", "fmt", "--manifest-path", manifest)
        yield from repository.passes(*command, "--all", "--check")
    for manifest in ("fuzz/Cargo.toml", "studies/probes/rust/Cargo.toml"):
        yield from repository.passes("cargo", "fmt", "--manifest-path", manifest, "--", "--check")
