"""The crates' documentation builds without a warning."""

import repository


def check():
    for manifest in repository.WORKSPACES:
        command = ("cargo", "doc", "--quiet", "--locked", "--manifest-path", manifest)
        yield from repository.passes(
            *command, "--workspace", "--no-deps", RUSTDOCFLAGS="-D warnings", **repository.APART
        )
