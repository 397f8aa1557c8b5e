"""A Slurm cluster on this machine: the real controller and four real node daemons. All of them listen on loopback, or
the nodes run in their own network namespace.

Each node claims to have more processors than the machine, and two GPUs. The GPUs are fake: Slurm accepts any device
file as a GPU.
The machine's own Slurm configuration is neither read nor changed.
"""

import socket
import subprocess

from daemons import end_all, fail, kill, restart, say, start, succeeds, until

NODES = 4
NEEDED = ["munged", "slurmctld", "slurmd", "sbatch"]
# The controller's port. The nodes listen at the ports after it.
CONTROLLER_PORT = 17000
# File with the name of the nodes' network namespace, if any.
NAMESPACE = "namespace"


def environment(folder):
    """Environment of a program that uses this cluster."""
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def up(folder, namespace="", controller="127.0.0.1", node="127.0.0.1"):
    """Starts the cluster, and returns when all nodes are idle.

    With a network namespace, the nodes run in it at the address `node`, and reach the controller at the address
    `controller`.
    """
    write(folder, controller, node)
    (folder / NAMESPACE).write_text(namespace)
    munge = ["--force", "--key-file", folder / "munge.key", "--socket", folder / "munge.socket"]
    munge += ["--pid-file", folder / "munged.own-pid", "--seed-file", folder / "munge.seed"]
    start(folder, "munged", ["munged", "--foreground", "--log-file", folder / "munged.own-log", *munge])
    until("munge's socket", (folder / "munge.socket").exists)
    start(folder, "slurmctld", ["slurmctld", "-D", "-f", folder / "slurm.conf"], environment(folder))
    for node in nodes():
        start_node(folder, node)
    until("idle nodes", lambda: idle(folder) == NODES)
    say(f"Slurm is up: {NODES} nodes, SLURM_CONF={folder / 'slurm.conf'}")


def start_node(folder, node):
    """Starts one node's daemon."""
    namespace = (folder / NAMESPACE).read_text()
    # `ip netns exec` would mount another /sys, without the control groups that the daemon needs.
    inside = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
    command = [*inside, "slurmd", "-D", "-N", node, "-f", folder / "slurm.conf"]
    start(folder, node, command, environment(folder))


def down(folder):
    """Ends all jobs and the cluster."""
    if (folder / "slurmctld.pid").exists():
        succeeds("scancel", "--full", "--user", "root", environment=environment(folder))
    end_all(folder)


def lose_node(folder, node):
    """Kills a node's daemon; its jobs continue, as on a disconnected node."""
    kill(folder, node)


def return_node(folder, node):
    """Restarts the node."""
    start_node(folder, node)


def lose_controller(folder):
    """Kills the controller."""
    kill(folder, "slurmctld")


def return_controller(folder):
    """Restarts the controller with its saved state."""
    restart_controller(folder)


def restart_controller(folder):
    """Starts the controller with the same configuration."""
    restart(folder, "slurmctld")
    until("the controller's answer", lambda: succeeds("scontrol", "ping", environment=environment(folder)))


def nodes():
    """The names of the nodes."""
    return [f"edge{number}" for number in range(1, NODES + 1)]


def idle(folder):
    """Number of idle nodes."""
    asked = subprocess.run(
        ["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment(folder)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return len(asked.stdout.split())


def write(folder, controller, node):
    """Writes the cluster's configuration and its key."""
    host = socket.gethostname().split(".")[0]
    key = folder / "munge.key"
    if not key.exists():
        key.write_bytes(open("/dev/urandom", "rb").read(128))
    key.chmod(0o600)
    (folder / "state").mkdir(exist_ok=True)
    names = f"edge[1-{NODES}]"
    # With the default arguments of `up`, the daemons listen only on the loopback address, to which the machine's name
    # resolves. At other addresses, the daemons accept only requests that are authenticated with the cluster's key.
    loopback = controller == node == "127.0.0.1"
    addresses = "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny" if loopback else ""
    (folder / "gres.conf").write_text(f"NodeName={names} Name=gpu File=/dev/tty[0-1]\n")
    (folder / "slurm.conf").write_text(
        f"""ClusterName=openuvr
SlurmctldHost={host}({controller})
SlurmctldPort={CONTROLLER_PORT}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.own-pid
SlurmdPidFile={folder}/%n.own-pid
{addresses}
# The nodes claim to have more processors than the machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
# A limit that a test can reach.
Licenses=session:2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MailProg=/bin/true
ReturnToService=2
KillWait=5
SlurmdTimeout=10
# A session is never restarted.
JobRequeue=0
NodeName={names} NodeHostname={host} NodeAddr={node} Port=[{CONTROLLER_PORT + 1}-{CONTROLLER_PORT + NODES}] """
        f"""CPUs=8 RealMemory=16000 Gres=gpu:2
PartitionName=sessions Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""
    )


def check(missing):
    """Reports missing programs."""
    if missing:
        fail(f"{', '.join(missing)} not found: ./dev test-cluster slurm installs it")
