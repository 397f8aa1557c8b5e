"""clippy has nothing to say, in the program, the tests and the benches."""

import repository


def check():
    yield from repository.passes(
        "cargo", "clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"
    )
