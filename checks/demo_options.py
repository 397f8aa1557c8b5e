"""`./dev demo`, which checks its options before the build, accepts the same options as `openuvr demo`."""

import re

import repository


def check():
    source = (repository.ROOT / "crates/demo/src/lib.rs").read_text()
    struct = re.search(r"pub struct Args \{(.*?)\n\}", source, re.S).group(1)
    # An attribute with an option, and its field.
    fields = re.findall(r"#\[arg\((.*?)\)\]\n\s+(\w+): ([\w:<>]+)", struct, re.S)
    there = set()
    for attribute, field, kind in fields:
        named = re.search(r'long = "([a-z-]+)"', attribute)
        name = named.group(1) if named else field.replace("_", "-")
        # An option whose value is optional is listed without `=`.
        takes_value = kind != "bool" and "num_args = 0" not in attribute
        there.add(f"--{name}{'=' if takes_value else ''}")
    there.add("--help")
    dev = (repository.ROOT / "dev").read_text()
    known = set(re.search(r'^demo_options="([^"]*)"', dev, re.M).group(1).split())
    for option in sorted(there ^ known):
        yield f"{option}: {'not in demo_options of ./dev' if option in there else 'no option of demo'}"
