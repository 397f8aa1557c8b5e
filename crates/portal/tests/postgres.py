"""Runs a PostgreSQL server for tests, in a folder of its own: `python3 crates/portal/tests/postgres.py`.

The server has a certificate for localhost. This program prints the server's port on 127.0.0.1, and the path of the
certificate of the authority that signed the server's certificate. Then it reads lines: `stop` and `start` stop and
start the server, and `database NAME` creates a database. It answers each line with `ok`. When its input ends, it stops
the server and removes the folder. The user is `portal`, the password `portal`.
"""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

# initdb and the server refuse to run as root.
ACCOUNT = "postgres"


def main():
    folder = Path(tempfile.mkdtemp(prefix="openuvr-postgres-"))
    try:
        server = Server(folder)
        try:
            print(server.port, server.authority, flush=True)
            for line in sys.stdin:
                server.obey(*line.split())
                print("ok", flush=True)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.data = folder / "data"
        self.authority = folder / "authority.pem"
        self.port = free_port()
        if os.geteuid() == 0:
            shutil.chown(folder, ACCOUNT)
        folder.chmod(0o755)
        self.make_certificates()
        password = folder / "password"
        password.write_text("portal\n")
        password.chmod(0o644)
        self.run(program("initdb"), f"--pgdata={self.data}", "--username=portal", f"--pwfile={password}",
                 "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C")
        self.start()

    def make_certificates(self):
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self.run("openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=an authority",
                 "-keyout", "authority.key", "-out", str(self.authority))
        self.run("openssl", "req", "-new", *key, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
        (self.folder / "extensions").write_text("basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n")
        self.run("openssl", "x509", "-req", "-in", "server.csr", "-CA", str(self.authority), "-CAkey", "authority.key",
                 "-days", "2", "-extfile", "extensions", "-out", "server.pem")

    def start(self):
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "ssl": "on",
            "ssl_cert_file": self.folder / "server.pem",
            "ssl_key_file": self.folder / "server.key",
            "fsync": "off",
        }
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self.run(program("pg_ctl"), "start", "-w", f"--pgdata={self.data}", f"--log={self.folder / 'log'}",
                 f"--options={options}")

    def stop(self):
        self.run(program("pg_ctl"), "stop", "-w", "-m", "immediate", f"--pgdata={self.data}")

    def obey(self, verb, name=None):
        if verb == "database":
            self.run("createdb", "--host=127.0.0.1", f"--port={self.port}", "--username=portal", name,
                     environment={"PGPASSWORD": "portal"})
        else:
            {"start": self.start, "stop": self.stop}[verb]()

    def run(self, *words, environment=None):
        account = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam(ACCOUNT)
            account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        done = subprocess.run(
            words, cwd=self.folder, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **account,
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stdout}")


def program(name):
    """Debian does not put the server's programs into PATH."""
    found = shutil.which(name) or next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None)
    return str(found or sys.exit(f"no {name}: install postgresql"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


main()
