"""A user of a portal, for the tests of the packages. A file keeps the log-in from one call to the next.

portal.py ADDRESS FILE login NAME PASSWORD
portal.py ADDRESS FILE start APPLICATION       starts a session, waits until it runs, and prints its id
portal.py ADDRESS FILE state SESSION           prints the session's state
portal.py ADDRESS FILE stop SESSION            stops the session, and waits for its end
portal.py DATABASE dump                        prints accounts, secrets and the first session
portal.py DATABASE version [NUMBER]            prints the version of the tables, or sets it

Only the standard library is used.
"""

import json
import sqlite3
import sys
import time
import urllib.error
import urllib.request
import uuid

TABLES = {
    "users": "SELECT name, password, operator, sessions, subject, created FROM users ORDER BY name",
    # The health check writes the time of its last run.
    "keys": "SELECT name, value FROM keys WHERE name <> 'checked' ORDER BY name",
    # The test starts further sessions.
    "history": "SELECT session, user_name, application, launched FROM history ORDER BY launched LIMIT 1",
}


class User:
    def __init__(self, address, file):
        self.address, self.file = address, file

    def request(self, method, path, body=None, login=None):
        login = login if login is not None else json.load(open(self.file))
        headers = {"content-type": "application/json", **login}
        data = json.dumps(body).encode() if body is not None else None
        wanted = urllib.request.Request(f"http://{self.address}{path}", data, headers, method=method)
        try:
            return urllib.request.urlopen(wanted, timeout=30)
        except urllib.error.HTTPError as why:
            sys.exit(f"portal.py: {method} {path}: {why}: {why.read().decode()}")

    def login(self, name, password):
        answer = self.request("POST", "/api/login", {"name": name, "password": password}, login={})
        cookies = [line.split(";")[0] for line in answer.headers.get_all("set-cookie")]
        login = {"cookie": "; ".join(cookies), "x-openuvr-csrf": json.load(answer)["csrf"]}
        json.dump(login, open(self.file, "w"))

    def start(self, application):
        session = str(uuid.uuid4())
        self.request("PUT", f"/api/sessions/{session}", {"application": application})
        self.until(session, "running")
        print(session)

    def state(self, session):
        print(self.see(session)["state"])

    def stop(self, session):
        self.request("DELETE", f"/api/sessions/{session}")
        self.until(session, "ended")

    def see(self, session):
        return json.load(self.request("GET", f"/api/sessions/{session}"))

    def until(self, session, state):
        end = time.monotonic() + 60
        while (seen := self.see(session))["state"] != state:
            if time.monotonic() > end or seen["state"] in ("ended", "lost"):
                sys.exit(f"portal.py: the session is not {state}: {seen}")
            time.sleep(0.1)


def dump(database):
    for table, query in TABLES.items():
        for row in database.execute(query):
            print(table, *row)


def version(database, number=None):
    if number is not None:
        with database:
            database.execute("DELETE FROM schema_version WHERE version > ?", (number,))
            database.execute("INSERT INTO schema_version (version) VALUES (?)", (number,))
    print(*database.execute("SELECT max(version) FROM schema_version").fetchone())


if sys.argv[2] in ("dump", "version"):
    {"dump": dump, "version": version}[sys.argv[2]](sqlite3.connect(sys.argv[1]), *sys.argv[3:])
else:
    getattr(User(*sys.argv[1:3]), sys.argv[3])(*sys.argv[4:])
