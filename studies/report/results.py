"""Result files: one JSON file per bench or study, with long data in CSV files beside it."""

import json
import pathlib
from dataclasses import dataclass, field

import pandas

# The version of the result files' common header that this reporter reads.
SCHEMA_VERSION = 1
PREFIX = "openuvr."
# If other processes use more cores than this, times are unreliable (`QUIET` of the benches).
QUIET_CORES = 0.1


class UnreadableError(Exception):
    """A file or folder that cannot be read; the message is one line."""


def value(data, path, default=None):
    """The value at a path such as `stream/latency_ms/p50`; numbers index lists."""
    for part in path.split("/"):
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and part.lstrip("-").isdigit() and -len(data) <= int(part) < len(data):
            data = data[int(part)]
        else:
            return default
    return default if data is None else data


def named(rows, name):
    """The row with this `name`, or None."""
    return next((row for row in rows if row.get("name") == name), None)


def _found(data, key):
    """All values of a key, at any depth."""
    if isinstance(data, dict):
        for name, inner in data.items():
            if name == key:
                yield inner
            yield from _found(inner, key)
    elif isinstance(data, list):
        for inner in data:
            yield from _found(inner, key)


@dataclass
class Result:
    """One result file."""

    name: str
    data: dict
    path: pathlib.Path | None = None

    def get(self, path, default=None):
        return value(self.data, path, default)

    @property
    def place(self):
        """The file's folder and name: several runs have the same file name. Without a file, the name of the bench."""
        return f"{self.path.parent.name}/{self.path.name}" if self.path else self.name

    @property
    def is_quick(self):
        """Whether this result is from a smoke test."""
        return any(quick is True for quick in _found(self.data, "quick"))

    @property
    def other_cores(self):
        """Maximum number of cores that other processes used during a measurement."""
        numbers = [cores for cores in _found(self.data, "other_cores") if isinstance(cores, (int, float))]
        return max(numbers, default=0.0)

    @property
    def withheld(self):
        """The reason why the targets of times are not judged, or None."""
        if self.is_quick:
            return "quick run"
        return "busy machine" if self.other_cores > QUIET_CORES else None

    def table(self, file_name):
        """The rows of a CSV file beside this result; empty if there is none."""
        if self.path is None or "/" in str(file_name):
            return pandas.DataFrame()
        path = self.path.parent / str(file_name)
        return pandas.read_csv(path) if path.is_file() else pandas.DataFrame()


@dataclass
class Results:
    """All results of a report. Each has the name of its bench or study, such as `bench latency` or `lab wifi`."""

    all: list[Result] = field(default_factory=list)
    # Files that are not result files, each with the reason.
    ignored: list[str] = field(default_factory=list)

    def of(self, name):
        return [result for result in self.all if result.name == name]

    def first(self, name):
        return next(iter(self.of(name)), None)

    def add(self, name, data):
        """Adds a result without a file; returns self."""
        self.all.append(Result(name, data))
        return self


def read_file(path):
    """Reads a result file; returns None if its JSON is not that of a result file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableError(f"can't read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UnreadableError(f"{path} is not JSON: {error}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or not schema.startswith(PREFIX):
        return None
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UnreadableError(
            f"{path} has schema version {version}, but this reporter reads {SCHEMA_VERSION}: "
            "measure again with this build"
        )
    return Result(schema.removeprefix(PREFIX).replace(".", " "), data, path)


def read(places, may_be_empty=False):
    """Reads result files. Each place is a file or a folder. The direct subfolders of a folder are read, too.

    A file that several places contain is read once, because each file counts as an independent run.

    Raises UnreadableError if a place does not exist; if a file cannot be read, is not JSON or has another version; or,
    unless `may_be_empty` is true, if no place contains a result file.
    """
    results, known = Results(), set()
    for place in map(pathlib.Path, places):
        if not place.exists():
            raise UnreadableError(
                f"{place} does not exist: create and fill it with `openuvr bench report --run`, "
                "or choose another folder with --from"
            )
        files = [place] if place.is_file() else sorted([*place.glob("*.json"), *place.glob("*/*.json")])
        for path in files:
            if path.resolve() in known:
                continue
            known.add(path.resolve())
            result = read_file(path)
            if result is None:
                results.ignored.append(f"{path.name} is not a result of a bench or study")
            else:
                results.all.append(result)
    if not results.all and not may_be_empty:
        listed = ", ".join(str(place) for place in places)
        raise UnreadableError(
            f"no results in {listed}: measure them with `openuvr bench report --run`, "
            "or choose another folder with --from"
        )
    return results
