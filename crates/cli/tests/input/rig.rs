//! A host and clients of this very program, each on an X server of the test's own.
//!
//! Everything ends with its owner; nothing here waits for a fixed time, only for something that
//! can be seen, and at most for [`PATIENCE`].

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take that another process does: generous, since the machine of the
/// tests may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const PIN: &str = "123456";

/// Looks again and again until `look` finds something.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    in_time(look).unwrap_or_else(|| panic!("never happened: {what}"))
}

/// Looks again and again until `look` finds something, or patience is at its end.
pub(crate) fn in_time<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = look();
        if found.is_some() || Instant::now() > end {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child process, ended when dropped.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `command` with its standard error in the file `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Running {
        let file = File::create(log).expect("the log can be written");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
        let log = log.to_path_buf();
        Running { child, log }
    }

    /// What it said so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has said `words`.
    pub(crate) fn says(&mut self, words: &str) -> String {
        until(words, || {
            let said = self.said();
            if said.contains(words) {
                return Some(said);
            }
            let ended = self.child.try_wait().expect("ours");
            assert!(
                ended.is_none(),
                "it ended ({ended:?}) without saying {words:?}:\n{said}"
            );
            None
        })
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("ours");
        self.child.wait().expect("ours");
    }

    /// Stops it as a machine that sleeps, or lets it go on.
    pub(crate) fn freeze(&self, freeze: bool) {
        let signal = if freeze { "-STOP" } else { "-CONT" };
        let status = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill").success());
    }

    /// Waits for its own end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        until("it ends by itself", || self.child.try_wait().expect("ours"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}:\n{}", self.log.display(), self.said());
        }
    }
}

/// A running X server.
pub(crate) struct Xvfb {
    server: Child,
    pub(crate) display: String,
}

impl Xvfb {
    /// Starts one; `None`, said aloud, where there is no Xvfb.
    pub(crate) fn start(size: &str) -> Option<Xvfb> {
        let started = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", &format!("{size}x24")])
            .args(["-nolisten", "tcp", "-noreset", "+extension", "GLX"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut server) = started else {
            skip("Xvfb is not installed");
            return None;
        };
        let mut line = String::new();
        BufReader::new(server.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("Xvfb names its display");
        let display = format!(":{}", line.trim());
        Some(Xvfb { server, display })
    }

    /// Sets the keyboard layout; `false`, said aloud, where there is no setxkbmap.
    pub(crate) fn layout(&self, layout: &str) -> bool {
        let status = Command::new("setxkbmap")
            .args(["-display", &self.display, layout])
            .status();
        match status {
            Ok(status) => {
                assert!(status.success(), "setxkbmap {layout}");
                true
            }
            Err(_) => {
                skip("setxkbmap is not installed");
                false
            }
        }
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Says that a test is not run; an error where all must run.
pub(crate) fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
}

/// Two displays and a folder: where a host and its clients run.
pub(crate) struct Rig {
    pub(crate) host_side: Xvfb,
    pub(crate) client_side: Xvfb,
    port: u16,
    dir: PathBuf,
}

impl Rig {
    /// Starts both displays with a screen of this size (`640x480`) each.
    pub(crate) fn new(host: &str, client: &str) -> Option<Rig> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = format!("openuvr-input-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        Some(Rig {
            host_side: Xvfb::start(host)?,
            client_side: Xvfb::start(client)?,
            port: free.expect("a UDP port is free").port(),
            dir,
        })
    }

    /// A file of this rig.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where the host listens.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the host, and waits until it listens.
    pub(crate) fn host(&self, more: &[&str]) -> Running {
        let mut command = self.own("host", "host");
        command
            .args(["--bind", &self.address(), "--pin", PIN])
            .args(["--display", &self.host_side.display])
            .args(more);
        let mut host = Running::start(command, &self.path("host.log"));
        host.says("openuvr host: streaming");
        host
    }

    /// Starts a client that meets the host at `address`, and waits until it shows a picture.
    pub(crate) fn client_at(&self, address: &str, name: &str, more: &[&str]) -> Running {
        let mut command = self.own("client", name);
        command
            .args([address, "--pin", PIN])
            .args(["--display", &self.client_side.display])
            .args(more);
        let mut client = Running::start(command, &self.path(&format!("{name}.log")));
        client.says("openuvr client: showing");
        client
    }

    /// Starts a client and waits until it shows a picture.
    pub(crate) fn client(&self, name: &str, more: &[&str]) -> Running {
        self.client_at(&self.address(), name, more)
    }

    /// Makes a client known to the host before the host of the test runs: each opening of the
    /// host lets in one new client only.
    pub(crate) fn introduce(&self, name: &str) {
        let host = self.host(&["--source", "pattern", "--size", "320x240"]);
        let client = self.client(name, &["--present", "null"]);
        drop(client);
        drop(host);
    }

    /// A bad link in front of the host: its address, and the relay.
    pub(crate) fn hop(&self, more: &[&str]) -> (String, Running) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openuvr"));
        command
            .args(["lab", "hop", "--listen", "127.0.0.1:0"])
            .args(["--to", &self.address()])
            .args(more);
        let mut hop = Running::start(command, &self.path("hop.log"));
        let said = hop.says(" to ");
        let address = said.split_whitespace().nth(2).expect("its address");
        (address.to_owned(), hop)
    }

    fn own(&self, command: &str, name: &str) -> Command {
        let mut own = Command::new(env!("CARGO_BIN_EXE_openuvr"));
        own.arg(command).args(["--name", name, "--table", "off"]);
        own.arg("--config-dir").arg(self.path(name));
        own
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
