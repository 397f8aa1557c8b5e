"""Releases of a temporary clone: versions, change log, tag, hashes and signature; refusals and interruptions."""

import repository


def check():
    tests = str(repository.ROOT / "packaging/test")
    yield from repository.passes("python3", "-B", "-m", "unittest", "discover", "-s", tests)
