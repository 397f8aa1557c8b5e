"""openuvr.h matches crate capi, compiles alone as C99 and C++, and each function catches panics."""

import repository


def check():
    yield from repository.passes("cargo", "test", "--quiet", "--workspace", "--test", "header")
