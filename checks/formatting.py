"""All Rust code is formatted with rustfmt."""

import repository

# The crates that belong to neither workspace.
ALONE = ("fuzz/Cargo.toml", "plugins/bevy/Cargo.toml", "studies/probes/rust/Cargo.toml")


def check():
    for manifest in repository.WORKSPACES:
        command = ("cargo", "fmt", "--manifest-path", manifest)
        yield from repository.passes(*command, "--all", "--check")
    for manifest in ALONE:
        yield from repository.passes("cargo", "fmt", "--manifest-path", manifest, "--", "--check")
