"""clippy reports nothing: in the program, in the tests, and with each feature alone."""

import repository


def check():
    yield from clippy("--workspace", "--all-targets")
    for package in repository.members():
        for feature in sorted(set(package["features"]) - {"default"}):
            yield from clippy("-p", package["name"], "--no-default-features", "--features", feature)


def clippy(*what):
    return repository.passes("cargo", "clippy", "--quiet", *what, "--", "-D", "warnings")
