"""systemd accepts all units without a warning, and the portal's unit has an exposure of at most 3.0.

The units are those in packaging/systemd and in documents. Without systemd-analyze, only the settings of the host are
checked. The programs and manual pages that a unit names need not be installed.
"""

import os
import pathlib
import re
import shutil
import tempfile

import repository

UNITS = repository.ROOT / "packaging/systemd"
# User units; all other units are system units.
OF_USERS = {"openuvr-host.service"}
# The maximum exposure, in tenths. `systemd-analyze security` computes the exposure from a unit's settings.
MAX_EXPOSURE = {"openuvr-portal.service": 30}
# Settings on which the programs rely.
REQUIRED = {"openuvr-host.service": ["Type=notify", "WatchdogSec=", "Restart=on-failure"]}


def check():
    for name, settings in REQUIRED.items():
        lines = (UNITS / name).read_text().splitlines()
        for setting in settings:
            if not any(line.startswith(setting) for line in lines):
                yield f"packaging/systemd/{name} lacks {setting}"
    if not shutil.which("systemd-analyze"):
        skipped = "systemd has not verified the units: systemd-analyze is missing; install the package systemd"
        if os.environ.get("CI") == "true":
            yield skipped
        else:
            print(f"  {skipped}", flush=True)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for place, file, text in units():
            # systemd-analyze reports a program that does not exist, so all programs are replaced.
            (folder / file).write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.M))
            for line in complaints(folder / file):
                yield f"{place}: {line}"
            (folder / file).unlink()


def units():
    """For each unit: the file that contains it, the unit's file name, and its text."""
    for path in sorted(UNITS.iterdir()):
        yield f"packaging/systemd/{path.name}", path.name, path.read_text()
    for document in repository.documents():
        for block in re.findall(r"^```ini\n(\[Unit\]\n.*?)^```$", repository.text(document), re.M | re.S):
            yield str(document), "openuvr-document.service", block


def complaints(unit):
    """The warnings of systemd-analyze, which exits with 0 after most of them."""
    instance = ["--user"] if unit.name in OF_USERS else []
    # systemd's user instance creates files in XDG_RUNTIME_DIR, which is not set without a log-in.
    with tempfile.TemporaryDirectory() as runtime:
        done = analyze(*instance, "--man=no", "verify", str(unit), XDG_RUNTIME_DIR=runtime)
    yield from (line.removeprefix(f"{unit}:") for line in done.stdout.splitlines())
    if done.returncode != 0 and not done.stdout:
        yield f"systemd-analyze verify ended with {done.returncode}"
    limit = MAX_EXPOSURE.get(unit.name)
    if limit is None:
        return
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={limit}", str(unit))
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[-1:] or [f"systemd-analyze ended with {done.returncode}"]
        yield f"the exposure must be at most {limit / 10}: {last[0]}"


def analyze(*words, **environment):
    return repository.run("systemd-analyze", *words, **environment)
