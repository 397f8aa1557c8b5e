"""clippy reports nothing in programs and tests, nor in a package that is built with only one of its features."""

import repository


def check():
    for manifest in repository.WORKSPACES:
        yield from clippy(manifest, "--workspace", "--all-targets")
        for package in repository.members([manifest]):
            for feature in sorted(set(package["features"]) - {"default"}):
                alone = ("--no-default-features", "--features", feature)
                yield from clippy(manifest, "-p", package["name"], *alone)


def clippy(manifest, *what):
    command = ("cargo", "clippy", "--quiet", "--locked", "--manifest-path", manifest)
    return repository.passes(*command, *what, "--", "-D", "warnings", **repository.APART)
