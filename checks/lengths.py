"""The documents that newcomers read whole stay short: README 900 words, ARCHITECTURE 2,500."""

import repository

LIMITS = {"README.md": 900, "ARCHITECTURE.md": 2500}


def check():
    for name, limit in LIMITS.items():
        words = len(repository.text(repository.pathlib.Path(name)).split())
        if words > limit:
            yield f"{name}: {words} words, but the limit is {limit}"
