"""A crate's own clippy.toml, which replaces the root's clippy.toml, repeats all lines of the root's."""

import pathlib

import repository


def check():
    root = [line for line in repository.text(pathlib.Path("clippy.toml")).splitlines() if line]
    for path in repository.tracked():
        if path.name == "clippy.toml" and path.parent.parts:
            own = repository.text(path).splitlines()
            for line in root:
                if line not in own and not line.startswith("#"):
                    yield f"{path}: missing line of the root's clippy.toml: {line.strip()}"
