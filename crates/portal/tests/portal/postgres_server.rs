//! A PostgreSQL server. It ends with this process at the latest.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};

/// Environment variable that makes all portals of a test program use PostgreSQL.
const WANTED: &str = "OPENUVR_TEST_DATABASE";

static SHARED: LazyLock<Mutex<Server>> = LazyLock::new(|| Mutex::new(Server::start()));

pub(crate) struct Server {
    child: Child,
    /// Standard input of the script that runs the server. The script stops the server when this input is closed.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) port: u16,
    /// Certificate of the authority that signed the server's certificate.
    pub(crate) authority: PathBuf,
}

/// The URL of an empty database; `None` if this test run does not use PostgreSQL.
pub(crate) fn database() -> Option<String> {
    let wanted = std::env::var(WANTED).ok()?;
    assert_eq!(wanted, "postgres", "{WANTED} must be postgres or unset");
    Some(SHARED.lock().unwrap().database())
}

impl Server {
    pub(crate) fn start() -> Server {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/postgres.py");
        let mut child = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Server {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            port: 0,
            authority: PathBuf::new(),
        };
        let line = server.answer();
        let (port, authority) = line.split_once(' ').unwrap();
        server.port = port.parse().unwrap();
        server.authority = authority.into();
        server
    }

    /// Creates an empty database. Returns its URL, without TLS.
    pub(crate) fn database(&mut self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("portal{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.order(&format!("database {name}"));
        let port = self.port;
        format!("postgres://portal:portal@localhost:{port}/{name}?sslmode=disable")
    }

    /// Sends a line, such as `stop` or `start`, to the script, and waits until the script has done it.
    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders.as_ref().unwrap(), "{order}").unwrap();
        assert_eq!(self.answer(), "ok", "{order}");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
