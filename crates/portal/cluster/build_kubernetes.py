"""Builds the programs of a Kubernetes cluster from Go's module proxy, once for each version.

`go install` cannot build Kubernetes, because its modules replace each other with folders. Therefore, this program
writes a module that replaces them with released versions, and builds that module.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from daemons import fail, say

KUBERNETES = "1.36.3"
CONTAINERD = "2.4.2"
KWOK = "0.8.0"
# The minimum Go version of Kubernetes itself.
GO = [1, 26]
HERE = Path(__file__).resolve().parent
# Build tags that leave out file systems that need further headers.
CONTAINERD_TAGS = "no_btrfs,no_zfs"


def programs():
    """The folder with hyperkube, containerd, ctr, containerd-shim-runc-v2 and kwok; built if missing."""
    newest_go()
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[2] / "target"))
    folder = target / "cluster" / f"kubernetes-{KUBERNETES}-containerd-{CONTAINERD}-kwok-{KWOK}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in {
        "hyperkube": hyperkube,
        "containerd": containerd,
        "kwok": kwok,
    }.items():
        if not (folder / name).exists():
            build(folder)
    return folder


def newest_go():
    """Exits unless Go is new enough. Distributions often package an older Go."""
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    numbers = [int(number) for number in re.findall(r"\d+", said)[:2]]
    if numbers < GO:
        wanted = ".".join(map(str, GO))
        fail(f"Kubernetes {KUBERNETES} needs Go {wanted} or newer, not {said.strip() or 'none'}: see https://go.dev/dl")


def hyperkube(folder):
    """Builds Kubernetes' own programs and etcd: about four minutes on two cores, with 2.5 GB of memory."""
    say(f"building Kubernetes {KUBERNETES}: this takes some minutes, once")
    source = download(f"k8s.io/kubernetes@v{KUBERNETES}")
    upstream = (source / "go.mod").read_text()
    staging = re.findall(r"^\s*(\S+) => \./staging/", upstream, re.MULTILINE)
    etcd = re.search(r"go\.etcd\.io/etcd/server/v3 (v\S+)", upstream).group(1)
    version = "v0." + KUBERNETES.split(".", 1)[1]
    lines = ["module openuvr/hyperkube", re.search(r"^go .*$", upstream, re.MULTILINE).group(0), ""]
    lines += [f"require k8s.io/kubernetes v{KUBERNETES}", f"require go.etcd.io/etcd/server/v3 {etcd}"]
    # The module repeats the requirements of Kubernetes, so that each dependency has the same version as in the release.
    for block in re.findall(r"^require \(\n(.*?)^\)", upstream, re.MULTILINE | re.DOTALL):
        for module, its in re.findall(r"^\s*(\S+) (v\S+)", block, re.MULTILINE):
            if module not in staging and module != "go.etcd.io/etcd/server/v3":
                lines.append(f"require {module} {its}")
    lines += [f"replace {module} => {module} {version}" for module in staging]
    work = folder / "hyperkube-module"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "go.mod").write_text("\n".join(lines) + "\n")
    shutil.copyfile(source / "go.sum", work / "go.sum")
    (work / "go.sum").chmod(0o644)
    shutil.copyfile(HERE / "hyperkube" / "main.go", work / "main.go")
    go(work, "mod", "tidy")
    major, minor, _ = KUBERNETES.split(".")
    stamp = "k8s.io/component-base/version"
    flags = f"-s -w -X {stamp}.gitVersion=v{KUBERNETES} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    go(work, "build", "-trimpath", "-ldflags", flags, "-o", str(folder / "hyperkube"), ".")


def containerd(folder):
    """Builds the container runtime and its client."""
    say(f"building containerd {CONTAINERD}")
    path = "github.com/containerd/containerd/v2/cmd"
    for name in ["ctr", "containerd-shim-runc-v2", "containerd"]:
        install(folder, f"{path}/{name}@v{CONTAINERD}", "-tags", CONTAINERD_TAGS)


def kwok(folder):
    """Builds KWOK, the simulator of nodes."""
    say(f"building KWOK {KWOK}")
    install(folder, f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK}")
    stages = download(f"sigs.k8s.io/kwok@v{KWOK}") / "kustomize" / "stage"
    names = [
        "node/fast/node-initialize.yaml",
        "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
        "pod/fast/pod-ready.yaml",
        "pod/fast/pod-complete.yaml",
        "pod/fast/pod-delete.yaml",
    ]
    text = "\n---\n".join((stages / name).read_text() for name in names)
    (folder / "kwok-stages.yaml").write_text(text)


def install(folder, what, *options):
    """`go install` into `folder`."""
    go(folder, "install", "-trimpath", "-ldflags", "-s -w", *options, what, GOBIN=str(folder))


def download(module):
    """Source folder of a module."""
    # The command runs outside of any module, because a module would determine the version.
    asked = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    answer = json.loads(asked.stdout or "{}")
    if "Dir" not in answer:
        fail(f"Go could not fetch {module}: {answer.get('Error') or asked.stderr.strip()}")
    return Path(answer["Dir"])


def go(folder, *arguments, **environment):
    """Runs `go` in `folder`."""
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", **environment},
        check=False,
    )
    if done.returncode != 0:
        fail(f"go {arguments[0]} failed in {folder}")
