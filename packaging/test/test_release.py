"""Tests of packaging/release: whole releases of a temporary clone of this repository."""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERSION = "97.1.0"
CHANGES = "- A change with a `#`.\n\n### Protocol\n\n- Version 2."
# Replaces ./dev package in these tests.
BUILD = (
    'v=$(sed -n \'s/^version = "\\(.*\\)"/\\1/p\' Cargo.toml | head -n 1) && mkdir -p "$CARGO_TARGET_DIR/packages/debug" && '
    'cd "$CARGO_TARGET_DIR/packages" && echo a >openuvr_$v-1_amd64.deb && echo b >openuvr-guest_$v-1_amd64.deb && '
    "echo c >openuvr-$v-py3-none-manylinux_2_35_x86_64.whl && echo d >debug/openuvr-dbgsym_$v-1_amd64.deb && "
    "echo f >openuvr-$v-1.x86_64.rpm && echo g >openuvr-$v-linux-x86_64.tar.zst && echo e >openuvr_$v-1_amd64.cdx.json"
)


def git(folder, *words):
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, text=True, capture_output=True)
    return done.stdout.strip()


# The files of the clone: those that a release changes, those that cargo needs to read the manifests, and those of the
# published crates.
FILES = re.compile(
    r"(^|/)(Cargo\.(toml|lock)|(lib|main|build)\.rs)$|^crates/capi/include/|^README.md$|^\.gitignore$|^LICENSE-"
    r"|^crates/(clock|ipc|media|net|proto|runtime)/"
)


@functools.cache
def template(folder):
    """A clone with a part of this repository, the working copy of the script, no releases, and unreleased changes."""
    clone = folder / "template"
    git(folder, "clone", "--quiet", "--shared", "--no-tags", "--no-checkout", str(ROOT), str(clone))
    git(clone, "symbolic-ref", "HEAD", "refs/heads/trunk")
    tracked = git(ROOT, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    git(clone, "checkout", git(ROOT, "rev-parse", "HEAD"), "--", *filter(FILES.search, tracked))
    (clone / "packaging").mkdir()
    git(clone, "config", "user.name", "Ada")
    git(clone, "config", "user.email", "ada@example.org")
    shutil.copy2(ROOT / "packaging/release", clone / "packaging/release")
    write_changes(clone, CHANGES)
    commit(clone)
    return clone


def write_changes(clone, changes):
    older = "## 0.0.1 (2020-01-01)\n\n- Older.\n"
    (clone / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased\n\n{changes}\n\n{older}")


def commit(clone):
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "test: change")


class ReleaseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext_(tempfile.TemporaryDirectory()))

    @classmethod
    def enterClassContext_(cls, context):
        # unittest has enterClassContext since Python 3.11.
        cls.addClassCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def setUp(self):
        self.clone = self.folder / "clone"
        subprocess.run(["cp", "-a", str(template(self.folder)), str(self.clone)], check=True)
        self.addCleanup(shutil.rmtree, self.clone)
        self.target = self.clone / "target"
        self.published = self.target / "releases" / VERSION

    def command(self, *options):
        environment = {key: value for key, value in os.environ.items() if key != "OPENUVR_RELEASE_KEY"}
        # checks/releasing.py has fetched the dependencies.
        environment["CARGO_NET_OFFLINE"] = "true"
        # --no-verify, because compiling the crates takes minutes.
        words = ["python3", "-B", str(self.clone / "packaging/release"), str(self.target), "--no-verify", *options]
        return {"args": words, "env": environment, "text": True, "stdin": subprocess.DEVNULL}

    def release(self, *options):
        return subprocess.run(**self.command(*options), capture_output=True)

    def released(self, *options):
        done = self.release(*options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(file.name for file in self.published.iterdir())

    def refused(self, expected, *options):
        """The release ends with one line that contains the text, and changes nothing."""
        before = self.state()
        done = self.release(*options)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(expected, done.stderr.splitlines()[-1])
        self.assertEqual(self.state(), before)
        return done

    def state(self):
        """References, changes of the working tree, and the result files."""
        files = sorted(str(path) for path in self.target.rglob("*") if path.is_file())
        kept = re.compile(r"/packages/|/package/|/(releasing\.lock|CACHEDIR\.TAG|\.rustc_info\.json)$")
        made = [path for path in files if not kept.search(path)]
        return git(self.clone, "for-each-ref"), git(self.clone, "status", "--porcelain"), made

    def key(self, name="key"):
        """A key pair of minisign without a password."""
        if not shutil.which("minisign"):
            if os.environ.get("CI") == "true":
                self.fail("minisign is not installed: apt install minisign")
            self.skipTest("minisign is not installed: apt install minisign")
        secret, public = self.folder / f"{name}.key", self.folder / f"{name}.pub"
        words = ["minisign", "-G", "-W", "-f", "-s", str(secret), "-p", str(public)]
        subprocess.run(words, check=True, capture_output=True)
        return secret, public

    def publish(self, public):
        shutil.copy(public, self.clone / "openuvr.pub")
        commit(self.clone)


class Releases(ReleaseTest):
    def test_the_commit_has_the_version_everywhere_and_the_tag_has_the_changes(self):
        head = git(self.clone, "rev-parse", "HEAD")
        old = re.search(r'^version = "(.*)"$', (self.clone / "Cargo.toml").read_text(), re.M)[1]
        files = self.released(VERSION, "--unsigned", "--no-packages")
        self.assertEqual(files, ["SHA256SUMS", f"openuvr-{VERSION}.tar.gz"])
        self.assertEqual(git(self.clone, "rev-parse", "HEAD^"), head, "one commit")
        self.assertEqual(git(self.clone, "rev-parse", f"v{VERSION}^{{commit}}"), git(self.clone, "rev-parse", "HEAD"))
        self.assertEqual(git(self.clone, "symbolic-ref", "--short", "HEAD"), "trunk")
        self.assertEqual(git(self.clone, "status", "--porcelain"), "")
        self.assertEqual(git(self.clone, "log", "-1", "--format=%an %ae %cn"), "Ada ada@example.org Ada")
        self.assertFalse((self.target / "releasing").exists())

        changed = set(git(self.clone, "diff", "--name-only", "HEAD^").split())
        header = "crates/capi/include/openuvr.h"
        locks = {"Cargo.lock", "studies/Cargo.lock", "fuzz/Cargo.lock", "plugins/bevy/Cargo.lock"}
        self.assertEqual(changed, {"CHANGELOG.md", "Cargo.toml", "studies/Cargo.toml", header} | locks)
        for lock in locks:
            text = (self.clone / lock).read_text()
            ours = re.findall(r'^name = "openuvr-(?!fuzz"|bevy")[a-z-]+"\nversion = "(.*)"$', text, re.M)
            self.assertGreater(len(ours), 5)
            self.assertEqual(set(ours), {VERSION}, lock)
        # Only the versions of this project change, not those of dependencies that are equal by chance.
        removed = re.findall(r"^-(?!--)(.*)$", git(self.clone, "diff", "-U0", "HEAD^", "--", *locks), re.M)
        self.assertEqual(set(removed), {f'version = "{old}"'})
        numbers = "#define OPENUVR_VERSION_MAJOR 97\n#define OPENUVR_VERSION_MINOR 1\n#define OPENUVR_VERSION_PATCH 0\n"
        self.assertIn(numbers, (self.clone / header).read_text())

        # The archives of the published crates, each of which requires exactly this version of the others.
        crates = self.target / "package"
        made = {file.name for file in crates.glob("*.crate")}
        names = ("clock", "ipc", "media", "net", "proto", "runtime")
        self.assertEqual(made, {f"openuvr-{name}-{VERSION}.crate" for name in names})
        with tarfile.open(crates / f"openuvr-clock-{VERSION}.crate") as tar:
            manifest = tar.extractfile(f"openuvr-clock-{VERSION}/Cargo.toml").read().decode()
        self.assertIn(f'[dependencies.openuvr-proto]\nversion = "={VERSION}"', manifest)

        headings = [line for line in (self.clone / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
        self.assertRegex("\n".join(headings), rf"^## Unreleased\n## {VERSION} \(20\d\d-\d\d-\d\d\)\n## 0.0.1 \(2020")
        contents = git(self.clone, "tag", "--list", "--format=%(contents)", f"v{VERSION}")
        self.assertEqual(contents, f"OpenUVR {VERSION}\n\n{CHANGES}")

    def test_the_hashes_are_those_of_all_files_and_the_signature_is_that_of_the_public_key(self):
        secret, public = self.key()
        self.publish(public)
        files = self.released(VERSION, "--key", str(secret), "--build", BUILD)
        packages = [f"openuvr{part}_{VERSION}-1_amd64.deb" for part in ("-dbgsym", "-guest", "")]
        packages += [f"openuvr-{VERSION}-py3-none-manylinux_2_35_x86_64.whl", f"openuvr_{VERSION}-1_amd64.cdx.json"]
        packages += [f"openuvr-{VERSION}-1.x86_64.rpm", f"openuvr-{VERSION}-linux-x86_64.tar.zst"]
        archive = f"openuvr-{VERSION}.tar.gz"
        self.assertEqual(files, sorted(["SHA256SUMS", "SHA256SUMS.minisig", archive, *packages]))
        lines = (self.published / "SHA256SUMS").read_text().splitlines()
        contents = {name: (self.published / name).read_bytes() for name in [archive, *packages]}
        expected = [f"{hashlib.sha256(contents[name]).hexdigest()}  {name}" for name in sorted(contents)]
        self.assertEqual(lines, expected)
        check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
        self.assertEqual(subprocess.run(check, cwd=self.published, capture_output=True).returncode, 0)
        verify = ["minisign", "-V", "-Q", "-p", str(public), "-m", str(self.published / "SHA256SUMS")]
        done = subprocess.run(verify, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, f"openuvr {VERSION}"))
        with tarfile.open(self.published / archive) as tar:
            manifest = tar.extractfile(f"openuvr-{VERSION}/Cargo.toml").read().decode()
            tracked = git(self.clone, "ls-files").splitlines()
            self.assertEqual(len([m for m in tar.getmembers() if not m.isdir()]), len(tracked))
        self.assertIn(f'version = "{VERSION}"', manifest)

    def test_the_next_release_needs_new_changes_and_a_greater_version(self):
        self.released(VERSION, "--unsigned", "--no-packages")
        self.refused("the section of unreleased changes is empty", "97.1.1", "--unsigned", "--no-packages")
        write_changes(self.clone, "- New.")
        commit(self.clone)
        for version in (VERSION, "97.0.9", "0.99.99"):
            expected = "is not greater than 97.1.0, the last release: use 97.1.1,"
            self.refused(expected, version, "--unsigned", "--no-packages")
        self.published = self.published.with_name("97.1.10")
        self.released("97.1.10", "--unsigned", "--no-packages")
        self.assertEqual(git(self.clone, "tag", "--list").split(), ["v97.1.0", "v97.1.10"])

    def test_a_dry_run_prints_each_step_and_changes_nothing(self):
        before = self.state()
        done = self.release(VERSION, "--unsigned", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.split(".")[0] for line in done.stdout.splitlines()], [str(n) for n in range(1, 11)])
        self.assertIn("3. versions: ", done.stdout)
        self.assertEqual(self.state(), before)
        self.assertFalse(self.target.exists())


class Refusals(ReleaseTest):
    def test_of_requirements(self):
        common = ("--unsigned", "--no-packages")
        self.refused("no key: use --key FILE, or set OPENUVR_RELEASE_KEY", VERSION, "--no-packages")
        self.refused("is not a file", VERSION, "--key", "/nonexistent", "--no-packages")
        for version in ("97.1", "v97.1.0", "97.01.0", "97.1.0-rc.1"):
            self.refused("is not of the form 1.2.3", version, *common)
        self.refused("is lower than", "0.0.2", *common)
        git(self.clone, "switch", "--quiet", "--detach")
        self.refused("no branch is checked out", VERSION, *common)

    def test_of_changes_in_the_tree(self):
        (self.clone / "new.txt").write_text("x")
        self.refused("the working tree has changes (?? new.txt)", VERSION, "--unsigned", "--no-packages")
        (self.clone / "new.txt").unlink()
        (self.clone / "README.md").write_text("x")
        self.refused("the working tree has changes (M README.md)", VERSION, "--unsigned", "--no-packages")

    def test_of_change_logs(self):
        cases = {
            "# Changelog\n\n## Unreleased\n\n### Host\n\n## 0.0.1 (2020-01-01)\n\n- Older.\n": "is empty",
            "# Changelog\n\n## 0.0.1 (2020-01-01)\n\n- Older.\n\n## Unreleased\n\n- New.\n": "is not '## Unreleased'",
            "# Changelog\n\n## 97.2.0 (unreleased)\n\n- New.\n": "announces 97.2.0, not 97.1.0",
        }
        for text, expected in cases.items():
            (self.clone / "CHANGELOG.md").write_text(text)
            commit(self.clone)
            self.refused(expected, VERSION, "--unsigned", "--no-packages")
        (self.clone / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} (unreleased)\n\n- New.\n")
        commit(self.clone)
        self.released(VERSION, "--unsigned", "--no-packages")

    def test_of_keys(self):
        secret, _ = self.key()
        self.refused("openuvr.pub is missing", VERSION, "--key", str(secret), "--no-packages")
        _, other = self.key("other")
        self.publish(other)
        expected = "the key does not belong to openuvr.pub"
        done = self.refused(expected, VERSION, "--key", str(secret), "--no-packages")
        self.assertIn("sign SHA256SUMS", done.stderr, "all earlier steps have been made")


class Failures(ReleaseTest):
    def test_of_the_build(self):
        self.refused("the packages are not built", VERSION, "--unsigned", "--build", "exit 3")
        self.refused("contains no *.deb", VERSION, "--unsigned", "--build", "true")
        without = BUILD.rpartition(" && ")[0]
        self.refused("contains no *.cdx.json", VERSION, "--unsigned", "--build", without)
        older = BUILD.replace("openuvr-$v", "openuvr-0.1.0")
        self.refused(f"is not of version {VERSION}", VERSION, "--unsigned", "--build", older)
        other = BUILD.replace("$v-1", "0.1.0~git1-1")
        self.refused(f"is not of version {VERSION}", VERSION, "--unsigned", "--build", other)

    def test_a_commit_during_the_release_stays_the_last_one(self):
        meanwhile = f"git -C '{self.clone}' commit --quiet --allow-empty --message other && {BUILD}"
        done = self.release(VERSION, "--unsigned", "--build", meanwhile)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("have changed meanwhile", done.stderr)
        self.assertEqual(git(self.clone, "log", "-1", "--format=%s"), "other")
        self.assertEqual(git(self.clone, "tag", "--list"), "")
        self.assertFalse(self.published.exists())

    def test_an_interrupted_build_ends_with_its_programs_and_changes_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            before, started = self.state(), self.folder / "started"
            build = f"sleep 1000 & echo $! >'{started}.new'; mv '{started}.new' '{started}'; wait"
            command = self.command(VERSION, "--unsigned", "--build", build)
            release = subprocess.Popen(**command, stderr=subprocess.PIPE)
            while not started.exists():
                self.assertIsNone(release.poll())
                time.sleep(0.05)
            release.send_signal(number)
            _, messages = release.communicate(timeout=60)
            self.assertEqual(release.returncode, 128 + number)
            self.assertIn("interrupted: branch, tags and files are as before", messages)
            self.assertEqual(self.state(), before)
            self.assertFalse((self.target / "releasing").exists())
            await_end(started.read_text().strip())
            started.unlink()


def await_end(process):
    """Waits until the process has ended, or is a zombie."""
    for _ in range(200):
        try:
            if pathlib.Path("/proc", process, "stat").read_text().split()[2] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.05)
    raise AssertionError(f"the process {process} of the build continues")


if __name__ == "__main__":
    unittest.main()
