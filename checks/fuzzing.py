"""Every fuzz target survives a few seconds of libFuzzer."""

import concurrent.futures
import os

import repository

SECONDS = 5
# Stateful targets need long inputs, which take longer to find.
STATEFUL = {"media_receiver", "host_session", "client_session", "conversation", "handshake"}
STATEFUL_SECONDS = 15


def check():
    targets = repository.run("fuzz/run")
    if targets.returncode != 0 or not targets.stdout.split():
        yield f"fuzz/run lists no target: {targets.stdout[-2000:]}"
        return
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(survives, targets.stdout.split()):
            yield from said


def survives(target):
    seconds = STATEFUL_SECONDS if target in STATEFUL else SECONDS
    # `-verbosity=0` keeps a passing run silent; a finding is printed nevertheless.
    limit = f"-max_total_time={seconds}"
    return list(repository.passes("fuzz/run", target, limit, "-verbosity=0"))
