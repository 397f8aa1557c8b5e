"""Starts the reporter: `python3 studies/report FOLDER`."""

import importlib.util
import os
import pathlib
import sys

NEEDED = ("pandas", "matplotlib", "jinja2")
# The distribution's Python finds the distribution's packages. Another Python that precedes it on `$PATH` does not.
DISTRIBUTION = "/usr/bin/python3"


def main() -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing and os.path.realpath(sys.executable) != os.path.realpath(DISTRIBUTION) and os.path.exists(DISTRIBUTION):
        os.execv(DISTRIBUTION, [DISTRIBUTION, *sys.argv])
    if missing:
        packages = " ".join(f"python3-{name}" for name in missing)
        print(f"report: Python packages missing: {', '.join(missing)}; apt-get install {packages}", file=sys.stderr)
        return 1
    # The modules in this folder must not hide those of the standard library.
    here = pathlib.Path(__file__).resolve().parent
    sys.path[0] = str(here.parent)
    from report import command

    return command.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
