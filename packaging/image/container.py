"""Runs an image of an OCI layout with runc. A `Container` has the restrictions of Kubernetes' Pod Security Standard
"restricted", a read-only root file system, and its own network with only the loopback interface.

The container has a user namespace. Without root, the caller needs subordinate ids for it (/etc/subuid).
"""

import json
import os
import pathlib
import platform
import re
import shutil
import signal
import stat
import subprocess
import time

# The profile of podman and buildah, in Debian's golang-github-containers-common. Docker's and containerd's default
# profiles have the same origin.
SECCOMP = pathlib.Path("/usr/share/containers/seccomp.json")
# Names of architectures in that profile and for runc.
ARCHITECTURES = {"x86_64": ("amd64", "SCMP_ARCH_X86_64"), "aarch64": ("arm64", "SCMP_ARCH_AARCH64")}
# First host id that the user namespace maps if the caller is root, and the number of ids. Debian assigns the same ids
# to the first account in /etc/subuid.
FIRST, NUMBER = 100000, 65536


class Failed(Exception):
    """An error with a one-line message for the user."""


def ids():
    """The mapping of user and group ids, for runc."""
    if os.getuid() == 0:
        users = groups = [(0, FIRST, NUMBER)]
    else:
        users, groups = subordinate("/etc/subuid", os.getuid()), subordinate("/etc/subgid", os.getgid())
    return [[dict(zip(("containerID", "hostID", "size"), part)) for part in all_] for all_ in (users, groups)]


def subordinate(file, own):
    """Maps the caller's own id to 0, and the caller's subordinate ids to the ids from 1."""
    name = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    for line in pathlib.Path(file).read_text().splitlines():
        owner, first, number = line.split(":")
        if owner in (name, str(os.getuid())):
            return [(0, own, 1), (1, int(first), int(number) - 1)]
    raise Failed(f"{name} has no subordinate ids in {file}: add them with usermod --add-subuids and --add-subgids")


def seccomp():
    """The default profile of containers, for a container without capabilities."""
    if not SECCOMP.exists():
        raise Failed(f"{SECCOMP} is missing: install golang-github-containers-common")
    profile = json.loads(SECCOMP.read_text())
    name, number = ARCHITECTURES[platform.machine()]
    rules = []
    for rule in profile["syscalls"]:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        # The container has no capabilities, so rules for containers with a capability do not apply.
        if includes.get("caps") or name not in includes.get("arches", [name]) or name in excludes.get("arches", []):
            continue
        kept = {"names": rule["names"], "action": rule["action"]}
        if rule.get("errnoRet") is not None:
            kept["errnoRet"] = rule["errnoRet"]
        if rule.get("args"):
            kept["args"] = rule["args"]
        rules.append(kept)
    architectures = [number]
    for entry in profile["archMap"]:
        if entry["architecture"] == number:
            architectures += entry["subArchitectures"]
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "architectures": architectures,
        "syscalls": rules,
    }


class Image:
    """An image, unpacked in a folder."""

    def __init__(self, layout, folder):
        self.bundle = folder / "bundle"
        entry = json.loads((layout / "index.json").read_text())["manifests"][0]
        tag = entry["annotations"]["org.opencontainers.image.ref.name"]
        root = os.getuid() == 0
        mapping = [f"--{kind}-map=0:{FIRST}:{NUMBER}" for kind in ("uid", "gid")] if root else ["--rootless"]
        output(["umoci", "unpack", *mapping, "--image", f"{layout}:{tag}", str(self.bundle)])
        self.bundle.chmod(0o711)
        self.process = json.loads((self.bundle / "config.json").read_text())["process"]
        blobs = layout / "blobs"
        manifest = json.loads((blobs / entry["digest"].replace(":", "/")).read_text())
        self.config = json.loads((blobs / manifest["config"]["digest"].replace(":", "/")).read_text())["config"]
        self.compressed = sum(layer["size"] for layer in manifest["layers"])

    def size(self):
        """The total size of all files in bytes. Hard links count once."""
        found = (path.lstat() for path in self.files())
        return sum({of.st_ino: of.st_size for of in found if not stat.S_ISDIR(of.st_mode)}.values())

    def files(self):
        """All files of the image."""
        return (self.bundle / "rootfs").rglob("*")


class Container:
    """A container of an image. It runs during the `with` block."""

    def __init__(self, image, name, command, volumes=()):
        """`command` replaces the image's command (CMD), not its entry point. `volumes` are pairs of a folder of this
        machine and its path in the container; they are read-only."""
        self.image, self.id = image, f"openuvr-{name}-{os.getpid()}"
        self.state = image.bundle.parent / "runc"
        self.log = image.bundle.parent / f"{name}.log"
        arguments = [*(image.config.get("Entrypoint") or []), *(command or image.config.get("Cmd") or [])]
        (image.bundle / "config.json").write_text(json.dumps(self.specification(arguments, volumes), indent=1))

    def specification(self, arguments, volumes):
        """The configuration of runc (OCI runtime specification 1.0.2)."""
        users, groups = ids()
        account = self.image.process["user"]

        def mount(place, kind, source, *options):
            return {"destination": place, "type": kind, "source": source, "options": list(options)}

        safe = ["nosuid", "nodev"]
        mounts = [
            mount("/proc", "proc", "proc", *safe, "noexec"),
            mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
            mount("/dev/shm", "tmpfs", "shm", *safe, "noexec", "mode=1777", "size=256m"),
            mount("/sys", "sysfs", "sysfs", *safe, "noexec", "ro"),
            mount("/tmp", "tmpfs", "tmpfs", *safe, "mode=1777", "size=256m"),
        ]
        # The image's volumes are writable, as in a Pod with emptyDir volumes, or in podman.
        owned = (f"uid={account['uid']}", f"gid={account['gid']}", "mode=0750", "size=256m")
        for place in sorted(self.image.config.get("Volumes") or {}):
            if place != "/tmp":
                mounts.append(mount(place, "tmpfs", "tmpfs", *safe, *owned))
        for folder, place in volumes:
            mounts.append(mount(place, "none", str(folder), "rbind", "ro", *safe))
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": account["uid"], "gid": account["gid"]},
                "args": arguments,
                "env": self.image.process["env"],
                "cwd": self.image.process["cwd"],
                "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")},
                "noNewPrivileges": True,
                "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}],
            },
            "root": {"path": "rootfs", "readonly": True},
            "hostname": "container",
            "mounts": mounts,
            "linux": {
                "uidMappings": users,
                "gidMappings": groups,
                "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user")],
                "seccomp": seccomp(),
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            },
        }

    def runc(self, *words):
        """The words of a runc command."""
        return ["runc", "--root", str(self.state), *words]

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.runc("run", "--bundle", str(self.image.bundle), self.id),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self.pid = self.await_("the container's process", self.running)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
        subprocess.run(self.runc("delete", "--force", self.id), **quiet)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.state, ignore_errors=True)

    def running(self):
        """The id of the container's first process on this machine; `None` if the container is not running."""
        asked = subprocess.run(self.runc("state", self.id), capture_output=True, text=True, check=False)
        state = json.loads(asked.stdout) if asked.returncode == 0 else {}
        return state.get("pid") if state.get("status") == "running" else None

    def await_(self, what, holds, seconds=60):
        """Calls `holds()` until it returns a true value, and returns this value. Fails after `seconds`."""
        end = time.monotonic() + seconds
        while True:
            value = holds()
            if value:
                return value
            ended = self.process.poll()
            if ended is not None or time.monotonic() > end:
                why = f"the container has ended with {ended}" if ended is not None else f"timeout of {seconds} s"
                raise Failed(f"{what}: {why}: {self.said()[-2000:]}")
            time.sleep(0.1)

    def said(self):
        """The container's output."""
        return self.log.read_text(errors="replace")

    def inside(self, *words):
        """The words of a command that runs a program of this machine in the container's network."""
        user = [] if os.getuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={self.pid}", *user, "--net", *words]

    def execute(self, *words):
        """Runs a command in the container, and returns its output."""
        return output(self.runc("exec", self.id, *words))

    def stop(self, seconds=20):
        """Ends the container as Kubernetes does, with SIGTERM; returns its exit status."""
        output(self.runc("kill", self.id, "TERM"))
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"the container ignores SIGTERM for {seconds} s: {self.said()[-2000:]}") from None

    def processes(self):
        """The ids of the container's processes on this machine."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.readlink(entry / "ns/pid") == own:
                        yield int(entry.name)
                except OSError:
                    continue

    def restrictions(self):
        """Checks in /proc that all processes of the container lack privileges; returns the number of processes."""
        number = 0
        for pid in self.processes():
            try:
                status = dict(re.findall(r"^(\w+):\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M))
                mounts = pathlib.Path(f"/proc/{pid}/mountinfo").read_text()
            except OSError:
                continue  # It has ended.
            if status["State"].startswith(("Z", "X")):
                continue
            number += 1
            root = next(line.split()[5] for line in mounts.splitlines() if line.split()[4] == "/")
            users, groups = ids()
            wrong = [
                f"{key} is {status[key]}"
                for key in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")
                if int(status[key], 16)
            ]
            for key, wanted in (("NoNewPrivs", "1"), ("Seccomp", "2")):
                wrong += [f"{key} is {status[key]}"] if status[key] != wanted else []
            for key, mapped in (("Uid", users), ("Gid", groups)):
                wrong += [f"{key} is root"] if str(mapped[0]["hostID"]) in status[key].split() else []
            wrong += ["the root file system is writable"] if "ro" not in root.split(",") else []
            if wrong:
                raise Failed(f"{status['Name']}: {'; '.join(wrong)}")
        return number


def output(command):
    """Runs a command, and returns its output. Fails if the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def end_on_signals():
    """Lets `with` blocks end when a signal ends the program."""

    def ends(number, _):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ends)
