"""openuvr.h matches crate capi and compiles on its own as C99 and as C++, and each function of capi catches panics."""

import repository


def check():
    yield from repository.passes("cargo", "test", "--quiet", "--workspace", "--test", "header")
