"""Daemons in the background, each with a pid file and a log in one folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def start(folder, name, command, environment=None):
    """Starts `command` without a wrapper, so that the recorded pid is that of the daemon itself."""
    log = open(folder / f"{name}.log", "ab")
    daemon = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    (folder / f"{name}.pid").write_text(f"{daemon.pid}\n")
    (folder / f"{name}.command").write_text(json.dumps([list(map(str, command)), environment]))


def restart(folder, name):
    """Restarts a daemon with its previous command and environment."""
    command, environment = json.loads((folder / f"{name}.command").read_text())
    start(folder, name, command, environment)


def kill(folder, name, how=signal.SIGKILL):
    """Stops one daemon and waits for its end."""
    file = folder / f"{name}.pid"
    if not file.exists():
        return
    pid = int(file.read_text())
    file.unlink()
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return
    until(f"the end of {name}", lambda: not alive(pid), seconds=20)


def end_all(folder):
    """Kills the daemons of `folder`, newest first, and all other processes whose command lines contain its name.

    There is no graceful shutdown, because an API server would wait for its watchers longer than a test may take.
    """
    files = sorted(folder.glob("*.pid"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files:
        kill(folder, file.stem)
    # Children of the daemons (shims, job steps) have the folder's name in their command lines.
    for pid in naming(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def naming(folder):
    """The processes with `folder` in their command lines, except for this one and its ancestors."""
    above = set()
    pid = os.getpid()
    while pid > 1:
        above.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in above:
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line:
            yield int(entry.name)


def alive(pid):
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    if state == "Z":
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
        return False
    return True


def until(what, holds, seconds=60):
    """Waits until `holds()` is true; returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            fail(f"timeout: {what}: {seconds} s")
        time.sleep(0.1)


def succeeds(*command, environment=None):
    """Whether `command` exits with 0."""
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        timeout=30,
        check=False,
    )
    return done.returncode == 0


def say(text):
    """Prints a line for the user."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def fail(text):
    """Prints the final error line for the user."""
    say(text)
    sys.exit(1)
