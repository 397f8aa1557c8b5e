"""Every `./dev` command, `openuvr` subcommand and long option in a document exists."""

import functools
import re

import repository

DEV = re.compile(r"(?<![\w/])\./dev ([a-z]\w*)")
OPENUVR = re.compile(r"(?<![\w.-])openuvr((?: [a-z][a-z0-9-]*)+|)((?: --[a-z][a-z-]*| \S+)*)")


def check():
    dev = set(re.findall(r"^\./dev (\w+)", repository.run("./dev", "help").stdout, re.M))
    for document in repository.documents():
        for number, code in repository.code_in(document):
            code = code.split(" #")[0]
            for word in DEV.findall(code):
                if word not in dev:
                    yield f"{document}:{number}: unknown command ./dev {word}"
            for words, rest in OPENUVR.findall(code):
                for line in wrong(words.split(), re.findall(r"--[a-z][a-z-]*", rest)):
                    yield f"{document}:{number}: {line}"


def wrong(words, options):
    """Follows the program's subcommands; the last subcommand must have the options."""
    path = ()
    for word in words:
        subcommands = help_of(path)[0]
        if not subcommands and path:
            break  # an argument
        if word not in subcommands:
            yield f"unknown command `openuvr {' '.join((*path, word))}`"
            return
        path = (*path, word)
    for option in options:
        if option not in help_of(path)[1] | {"--help", "--version"}:
            yield f"`openuvr {' '.join(path)}` has no option {option}"


@functools.cache
def help_of(path):
    """The subcommands and long options that the help of the subcommand `path` lists."""
    text = repository.run(str(repository.program()), *path, "--help").stdout
    listed = re.search(r"^Commands:\n((?:  .*\n|\n)*)", text, re.M)
    subcommands = set(re.findall(r"^  ([a-z][\w-]*)", listed[1], re.M)) if listed else set()
    return subcommands, set(re.findall(r"--[a-z][a-z-]*", text))
