"""The Kubernetes manifests in packaging/manifests are the output of the Helm chart in packaging/chart.

Each manifest states the hash of the chart. If helm is installed, the chart is also rendered and compared.
"""

import hashlib
import re
import shutil

import repository

CHART = repository.ROOT / "packaging/chart"
MANIFESTS = repository.ROOT / "packaging/manifests"
# The kinds of the objects in each manifest, in the order in which the objects are created.
FILES = {
    "access.yaml": ["Namespace", "ServiceAccount", "Role", "RoleBinding"],
    "portal.yaml": [
        "ConfigMap",
        "LimitRange",
        "PersistentVolumeClaim",
        "Deployment",
        "Service",
        "Ingress",
        "PodDisruptionBudget",
        "NetworkPolicy",
    ],
}
HEAD = "# Rendered from packaging/chart by ./dev chart. Chart {}, manifest {}.\n"


def check():
    for name in FILES:
        path = MANIFESTS / name
        head, _, body = path.read_text().partition("\n") if path.exists() else ("", "", "")
        if head + "\n" != HEAD.format(hash_of_chart(), digest(body.encode())):
            yield f"packaging/manifests/{name} does not match the chart: change only the chart, and run ./dev chart"
    helm = shutil.which("helm") or shutil.which("helm", path=str(repository.TARGET / "helm"))
    if not helm:
        return
    done = repository.run(*template(helm), "--set", "namespace.create=true")
    if done.returncode != 0:
        yield f"helm failed: {done.stdout.strip()}"
        return
    for name, text in rendered(done.stdout).items():
        if (MANIFESTS / name).read_text() != text:
            yield f"packaging/manifests/{name} differs from the rendered chart: run ./dev chart"


def template(helm):
    """The command that renders the chart. A helm built from its Go module has no default version of Kubernetes."""
    return [helm, "template", "openuvr", str(CHART), "--namespace", "openuvr", "--kube-version", "1.36.0"]


def rendered(output):
    """Divides the output of `helm template` into the manifests."""
    objects = {}
    for text in re.split(r"^---\n", output, flags=re.M):
        text = re.sub(r"^# Source: .*\n", "", text).strip()
        if text:
            objects.setdefault(re.search(r"^kind: (\w+)$", text, re.M)[1], []).append(text)
    unknown = set(objects) - {kind for kinds in FILES.values() for kind in kinds}
    assert not unknown, f"checks/chart.py assigns {unknown} to no manifest"
    bodies = {
        name: "\n---\n".join(text for kind in kinds for text in objects.get(kind, [])) + "\n"
        for name, kinds in FILES.items()
    }
    return {name: HEAD.format(hash_of_chart(), digest(body.encode())) + body for name, body in bodies.items()}


def hash_of_chart():
    """The hash of the chart's files and their names."""
    files = sorted(path for path in CHART.rglob("*") if path.is_file())
    return digest(b"".join(f"{path.relative_to(CHART)}\0".encode() + path.read_bytes() + b"\0" for path in files))


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]
