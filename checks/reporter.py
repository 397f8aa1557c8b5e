"""The reporter's own tests pass: verdicts, confidence intervals, plots and the page."""

import repository

# The distribution's Python, which has the distribution's packages.
PYTHON = "/usr/bin/python3"


def check():
    studies = str(repository.ROOT / "studies")
    yield from repository.passes(
        PYTHON, "-B", "-m", "unittest", "discover", "-s", f"{studies}/report/tests", "-t", studies
    )
