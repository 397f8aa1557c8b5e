"""Every dependency is available under a licence of the allow list, and comes from crates.io (docs/adr/0021)."""

import re

import repository

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CDLA-Permissive-2.0",  # data: the certificates of webpki-root-certs
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "OpenSSL",  # parts of AWS-LC, behind aws-lc-rs
    "Unicode-3.0",
    "Zlib",
}

# The workspaces, and the crates outside them that applications link. Each such crate has its own lock file.
MANIFESTS = (*repository.WORKSPACES, "plugins/bevy/Cargo.toml")

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def check():
    ours = {package["id"] for package in repository.members()}
    others = (p for manifest in MANIFESTS for p in repository.packages(manifest, members=False))
    for package in {package["id"]: package for package in others}.values():
        if package["id"] in ours:
            continue
        name = f"{package['name']} {package['version']}"
        if package["source"] != REGISTRY:
            yield f"{name}: comes from {package['source']}, not from crates.io"
        if not package["license"]:
            yield f"{name}: states no licence in Cargo.toml"
        elif not permits(package["license"]):
            yield f"{name}: {package['license']} is not on the allow list of checks/licences.py"


def permits(expression):
    """Whether an SPDX expression is satisfied by allowed licences; the legacy `/` means OR."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    met = either(tokens)
    if tokens:
        raise ValueError(f"not an SPDX expression: {expression}")
    return met


def either(tokens):
    met = both(tokens)
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        met = both(tokens) or met
    return met


def both(tokens):
    met = one(tokens)
    while tokens and tokens[0] == "AND":
        tokens.pop(0)
        met = one(tokens) and met
    return met


def one(tokens):
    token = tokens.pop(0)
    if token == "(":
        met = either(tokens)
        tokens.pop(0)
        return met
    if tokens and tokens[0] == "WITH":  # an exception only adds permissions
        del tokens[:2]
    return token in ALLOWED
