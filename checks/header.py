"""openuvr.h is what crate capi says, stands alone as C99 and C++, and each function stops panics."""

import repository


def check():
    yield from repository.passes("cargo", "test", "--quiet", "--workspace", "--test", "header")
