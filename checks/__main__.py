"""Consistency checks. `./dev check` runs all checks, and `./dev check NAME...` the named checks.

A check is a file with a function `check()` that yields one line per violation; the first line of its docstring states
the checked property. Checks use only the standard library of Python 3.10.
"""

import importlib
import pathlib
import sys
import time

# All checks, from fast to slow.
CHECKS = [
    "workplace",
    "rust_version",
    "lengths",
    "workspaces",
    "clippy_bans",
    "layers",
    "circles",
    "unsafe_address",
    "licences",
    "named_paths",
    "stage_words",
    "words",
    "quoted_messages",
    "symbols",
    "chart",
    "units",
    "page",
    "demo_options",
    "test_names",
    "reporter",
    "figures",
    "book",
    "published",
    "releasing",
    "formatting",
    "lints",
    "documentation",
    "header",
    "named_commands",
    "libraries",
    "fuzzing",
]


def main() -> int:
    here = pathlib.Path(__file__).resolve().parent
    wanted = sys.argv[1:] or CHECKS
    if {"-h", "--help"} & set(wanted):
        print(f"{__doc__.splitlines()[0]}\n\nChecks: {' '.join(CHECKS)}")
        return 0
    for name in set(wanted) - set(CHECKS):
        print(f"unknown check '{name}'; checks: {' '.join(CHECKS)}", file=sys.stderr)
        return 2
    forgotten = {path.stem for path in here.glob("*.py")} - set(CHECKS) - {"__main__", "repository"}
    failed = [f"checks/{name}.py is not in the list CHECKS" for name in sorted(forgotten)]
    for line in failed:
        print(line)
    for name in wanted:
        module = importlib.import_module(name)
        title = module.__doc__.splitlines()[0]
        begun = time.monotonic()
        violations = list(module.check())
        word = "FAILED" if violations else "ok"
        print(f"check {name:15} {word:6} {time.monotonic() - begun:5.1f} s  {title}", flush=True)
        for line in violations:
            print(f"  {line}", flush=True)
        if violations:
            failed.append(name)
    if failed:
        print(f"checks failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
