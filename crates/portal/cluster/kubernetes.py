"""A Kubernetes cluster on this machine, on loopback: real etcd, API server, controllers and scheduler; and either one
real node (kubelet, containerd, runc) next to a simulated node that accepts no Pods, or the given number of nodes
simulated by KWOK.

It has two users: `admin` may do everything, `portal` has the permissions of the chart's manifests. Their configurations
are `admin.kubeconfig` and `portal.kubeconfig`.

With a real node, the namespace has all objects of these manifests, so their limits apply to sessions. The portal's own
Pod is admitted but not scheduled, because no storage exists for its volume. With only simulated nodes, the namespace
has only the permissions. The manifests' Pod Security level applies only if sessions use the Pod network, because it
refuses Pods in the network of their node. No plugin enforces network policies.
"""

import hashlib
import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import build_kubernetes
from daemons import end_all, fail, kill, restart, say, start, succeeds, until

NEEDED = ["go", "runc", "ip"]
ROOT = Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path.append(str(ROOT / "checks"))

import chart  # noqa: E402
import repository  # noqa: E402

ETCD, PEERS, API, NODE = 12379, 12380, 16443, 17250
# The node's address, from a block reserved for documentation (RFC 5737). It is on the loopback interface. A kubelet
# would reject 127.0.0.1.
ADDRESS = "198.51.100.1"
# The plugins of Debian's package containernetworking-plugins.
CNI = "/usr/lib/cni"
# Time until a silent node counts as lost. The default of 50 s would make tests longer.
NODE_GRACE = "20s"
SESSION_IMAGE = "openuvr.test/session:1"
PAUSE_IMAGE = "openuvr.test/pause:1"


def up(folder, session, bridge="", subnet=""):
    """Starts a cluster with one real node that runs `session` in its containers; returns when it is ready.

    With a bridge of this machine, the Pod network is `subnet` on that bridge, and the image contains an X server
    and the encoder's libraries.
    """
    control_plane(folder)
    install_portal(folder)
    if not bridge:
        permit_host_network(folder)
    # The simulated node always responds. If no node responded, Kubernetes would assume that its own connection is
    # broken, and would not report a lost node.
    simulated_nodes(folder, 1, [{"key": "openuvr.test/other", "effect": "NoSchedule"}])
    real_node(folder, Path(session), bridge, subnet)
    say(f"Kubernetes is up: KUBECONFIG={folder / 'portal.kubeconfig'}")


def simulate(folder, nodes):
    """Starts a cluster with this many simulated nodes; returns when they are ready."""
    control_plane(folder)
    permit_host_network(folder)
    simulated_nodes(folder, int(nodes))
    say(f"Kubernetes is up, {nodes} simulated nodes: KUBECONFIG={folder / 'portal.kubeconfig'}")


def down(folder):
    """Stops the cluster and its pods."""
    end_all(folder)
    unmount(folder)
    succeeds("ip", "address", "delete", f"{ADDRESS}/32", "dev", "lo")


def lose_node(folder):
    """Kills the kubelet; its containers continue, as on a disconnected node."""
    kill(folder, "kubelet")


def return_node(folder):
    """Restarts the kubelet."""
    restart(folder, "kubelet")


def lose_controller(folder):
    """Kills the API server."""
    kill(folder, "kube-apiserver")


def return_controller(folder):
    """Restarts the API server."""
    restart(folder, "kube-apiserver")
    until("the API server", lambda: ready(folder))


def control_plane(folder):
    """Starts etcd, API server, controllers and scheduler, and sets the portal's permissions."""
    programs = folder / "programs"
    programs.unlink(missing_ok=True)
    programs.symlink_to(build_kubernetes.programs())
    local = f"http://127.0.0.1:{ETCD}"
    peers = f"http://127.0.0.1:{PEERS}"
    program(
        folder,
        "etcd",
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls={local}",
        f"--advertise-client-urls={local}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    )
    tokens = {user: secrets.token_hex(16) for user in ["admin", "portal"]}
    groups = {"admin": ',"system:masters"', "portal": ""}
    lines = [f"{token},{user},{user}{groups[user]}\n" for user, token in tokens.items()]
    (folder / "tokens.csv").write_text("".join(lines))
    (folder / "tokens.csv").chmod(0o600)
    key = folder / "service-accounts.key"
    if not key.exists():
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    program(
        folder,
        "kube-apiserver",
        f"--etcd-servers={local}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={API}",
        f"--cert-dir={folder}/pki",
        "--service-cluster-ip-range=10.199.0.0/24",
        "--authorization-mode=Node,RBAC",
        f"--token-auth-file={folder}/tokens.csv",
        "--service-account-issuer=https://openuvr.test",
        f"--service-account-signing-key-file={key}",
        f"--service-account-key-file={key}",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",
        "--kubelet-preferred-address-types=InternalIP",
    )
    for user, token in tokens.items():
        kubeconfig(folder, user, token)
    until("the API server", lambda: ready(folder))
    admin = f"--kubeconfig={folder}/admin.kubeconfig"
    program(
        folder,
        "kube-controller-manager",
        admin,
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        f"--node-monitor-grace-period={NODE_GRACE}",
        "--controllers=*,-node-ipam-controller,-service-lb-controller,-node-route-controller",
        f"--service-account-private-key-file={key}",
        f"--cert-dir={folder}/pki",
    )
    program(
        folder,
        "kube-scheduler",
        admin,
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        f"--cert-dir={folder}/pki",
        # The default of 50 requests per second would limit the measurement.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    )
    allow_portal(folder)


def manifests(folder):
    """The folder with the manifests of users: rendered from the chart if helm is installed, otherwise the checked-in
    ones, which `./dev check chart` compares with the chart.
    """
    helm = shutil.which("helm") or shutil.which("helm", path=str(repository.TARGET / "helm"))
    if not helm:
        return chart.MANIFESTS
    made = folder / "manifests"
    made.mkdir(exist_ok=True)
    for name, text in chart.rendered(run(*chart.template(helm), "--set", "namespace.create=true")).items():
        (made / name).write_text(text)
    return made


def allow_portal(folder):
    """Creates the namespace and the portal's permissions as in a user's cluster."""
    kubectl(folder, "apply", "--validate=strict", "-f", str(manifests(folder) / "access.yaml"))
    # In a user's cluster, the portal has a service account. In this cluster, it is a user with a token.
    kubectl(
        folder,
        "create",
        "rolebinding",
        "portal-by-token",
        "--namespace=openuvr",
        "--role=openuvr-portal",
        "--user=portal",
    )


def permit_host_network(folder):
    """Permits Pods in the network of their node, which the manifest's Pod Security level refuses."""
    level = "pod-security.kubernetes.io/enforce=privileged"
    kubectl(folder, "label", "--overwrite", "namespace", "openuvr", level)


def install_portal(folder):
    """Creates all other objects of the manifests, and waits until the cluster has admitted the portal's Pod.

    An error or an unknown field in the manifest ends this program. By default, the server would drop unknown fields.
    """
    kubectl(folder, "apply", "--validate=strict", "-f", str(manifests(folder) / "portal.yaml"))
    listing = ["get", "pods", "--namespace=openuvr", "--selector=app.kubernetes.io/name=openuvr-portal", "-o", "name"]
    # A Deployment is accepted even if Pod Security refuses its Pods, so this function waits for a Pod.
    until("admission of the portal's Pod", lambda: kubectl(folder, *listing).strip())


def real_node(folder, session, bridge, subnet):
    """Starts containerd, and a kubelet that uses it."""
    state = folder / "containerd"
    run("ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo")
    write_node(folder, state, bridge, subnet)
    start(
        folder,
        "containerd",
        [folder / "programs" / "containerd", "--config", folder / "containerd.toml"],
        {"PATH": f"{folder}/programs:{os.environ['PATH']}"},
    )
    until("containerd", lambda: succeeds(*ctr(folder), "version"))
    # A Pod sandbox needs a process that waits.
    wait = [Path("/usr/bin/sleep"), "infinity"]
    # The session of the launchers' tests uses `sleep` as its application.
    besides = streaming() if bridge else [Path("/usr/bin/sleep")]
    for image, entrypoint, files in [(PAUSE_IMAGE, wait, []), (SESSION_IMAGE, [session], besides)]:
        archive = folder / "image.tar"
        write_image(archive, image, entrypoint, files)
        run(*ctr(folder), "images", "import", str(archive))
    program(
        folder,
        "kubelet",
        f"--kubeconfig={folder}/admin.kubeconfig",
        f"--config={folder}/kubelet.yaml",
        f"--root-dir={folder}/kubelet",
        f"--cert-dir={folder}/pki",
        "--hostname-override=edge1",
        f"--node-ip={ADDRESS}",
    )
    until("a node that is ready", lambda: "edge1" in ready_nodes(folder))


def write_node(folder, state, bridge, subnet):
    """Writes the configurations of containerd and kubelet."""
    (folder / "cni").mkdir(exist_ok=True)
    # If sessions use the host's network, containerd needs only a loopback interface.
    plugin = {"type": "loopback"}
    if bridge:
        # There is no gateway and hence no forwarding, so only this machine reaches Pods.
        addresses = {"type": "host-local", "dataDir": f"{folder}/addresses", "ranges": [[{"subnet": subnet}]]}
        plugin = {"type": "bridge", "bridge": bridge, "ipam": addresses}
    (folder / "cni" / "10-pods.conflist").write_text(
        json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]})
    )
    (folder / "containerd.toml").write_text(
        f"""version = 3
root = "{state}/root"
state = "{state}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  # A machine that is itself a container does not permit lower OOM scores.
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{CNI}"]
  conf_dir = "{folder}/cni"
"""
    )
    (folder / "kubelet.yaml").write_text(
        f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {ADDRESS}
port: {NODE}
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
healthzPort: 0
# The address is only reachable from this machine.
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{folder}/containerd.sock
# Test machines have either version of control groups.
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
failSwapOn: false
# A limit that a test can reach.
maxPods: 2
resolvConf: ""
evictionHard: {{memory.available: "50Mi"}}
"""
    )


def streaming():
    """The dependencies of `openuvr session`: an X server with its keyboard map, software OpenGL, and the encoder."""
    programs = [Path(path) for path in ["/usr/bin/Xvfb", "/usr/bin/xkbcomp", "/usr/bin/setxkbmap", "/bin/sh"]]
    patterns = ["libx264.so*", "libxcb*.so*", "libX11*.so*", "libGL.so*", "libGLX*.so*", "dri/swrast_dri.so"]
    opened = [path for pattern in patterns for path in Path("/usr/lib").glob(f"*/{pattern}")]
    maps = [path for path in Path("/usr/share/X11/xkb").rglob("*") if path.is_file()]
    return [*programs, *opened, *maps]


def write_image(archive, name, entrypoint, besides):
    """Creates an image, as `docker save` writes it, with a program of this machine, other files, and their libraries."""
    program, *arguments = entrypoint
    files = {program, *besides}
    files |= {library for file in [*files] if "/share/" not in str(file) for library in libraries(file)}
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", dereference=True) as tar:
        for file in sorted(files):
            tar.add(file, arcname=str(file).lstrip("/"))
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(temporary)
    content = layer.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Entrypoint": [str(program), *arguments], "Env": ["PATH=/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for file, data in {
            "config.json": json.dumps(config).encode(),
            "layer.tar": content,
            "manifest.json": json.dumps(manifest).encode(),
        }.items():
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def libraries(program):
    """The libraries of a program, including the loader."""
    listed = run("ldd", str(program))
    return {Path(word) for word in listed.split() if word.startswith("/")}


def simulated_nodes(folder, number, taints=()):
    """Nodes with eight GPUs each, simulated by KWOK; with `taints`, nothing runs on them."""
    start(
        folder,
        "kwok",
        [
            folder / "programs" / "kwok",
            f"--kubeconfig={folder}/admin.kubeconfig",
            f"--config={folder}/programs/kwok-stages.yaml",
            "--manage-nodes-with-label-selector=type=kwok",
            "--node-lease-duration-seconds=40",
        ],
    )
    some = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"simulated-{index}", "labels": {"type": "kwok"}},
            "spec": {"taints": list(taints)},
            "status": {"capacity": some, "allocatable": some},
        }
        for index in range(number)
    ]
    file = folder / "nodes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    kubectl(folder, "create", "-f", str(file))
    wanted = {node["metadata"]["name"] for node in nodes}
    until("nodes that are ready", lambda: wanted <= set(ready_nodes(folder)), seconds=120)


def ready_nodes(folder):
    """The names of the nodes that are ready."""
    listed = json.loads(kubectl(folder, "get", "nodes", "-o", "json") or '{"items": []}')
    return [
        node["metadata"]["name"]
        for node in listed["items"]
        for condition in node.get("status", {}).get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]


def kubeconfig(folder, user, token):
    """Writes the configuration of a user with a token."""
    until("the API server's certificate", (folder / "pki" / "apiserver.crt").exists)
    text = f"""apiVersion: v1
kind: Config
clusters: [{{name: here, cluster: {{server: "https://127.0.0.1:{API}", insecure-skip-tls-verify: true}}}}]
users: [{{name: {user}, user: {{token: "{token}"}}}}]
contexts: [{{name: here, context: {{cluster: here, user: {user}, namespace: openuvr}}}}]
current-context: here
"""
    file = folder / f"{user}.kubeconfig"
    file.write_text(text)
    file.chmod(0o600)


def ready(folder):
    """Whether the API server responds."""
    return succeeds(*kubectl_command(folder), "get", "--raw", "/readyz")


def kubectl_command(folder):
    """The beginning of a command that runs kubectl as admin."""
    return [str(folder / "programs" / "hyperkube"), "kubectl", f"--kubeconfig={folder}/admin.kubeconfig"]


def kubectl(folder, *arguments):
    """The output of kubectl."""
    return run(*kubectl_command(folder), *arguments)


def ctr(folder):
    """The beginning of a command that runs containerd's own client in the kubelet's namespace."""
    return [str(folder / "programs" / "ctr"), "-a", str(folder / "containerd.sock"), "-n", "k8s.io"]


def run(*command):
    """The output of a command; a failure ends the program."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def program(folder, name, *arguments):
    """Starts one of Kubernetes' programs."""
    start(folder, name, [folder / "programs" / "hyperkube", name, *arguments])


def unmount(folder):
    """Removes the mounts of kubelet and containerd under `folder`, innermost first."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    places = [line.split()[1] for line in mounts]
    for place in sorted((p for p in places if p.startswith(str(folder))), key=len, reverse=True):
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def check(missing):
    """Reports missing programs."""
    if missing:
        fail(f"{', '.join(missing)} not found: ./dev test-cluster kubernetes installs it")
