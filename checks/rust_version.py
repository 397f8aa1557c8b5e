"""The minimum Rust version is the minor version of the pinned toolchain."""

import re

import repository


def check():
    text = repository.text(repository.pathlib.Path("rust-toolchain.toml"))
    pinned = re.search(r'^channel\s*=\s*"(\d+\.\d+)(\.\d+)?"', text, re.M)
    if not pinned:
        yield "rust-toolchain.toml: the channel is not a version number"
        return
    for package in repository.members():
        minimum = package["rust_version"]
        if minimum is None or ".".join(minimum.split(".")[:2]) != pinned[1]:
            yield f"{package['name']}: rust-version is {minimum}, rust-toolchain.toml has {pinned[1]}"
