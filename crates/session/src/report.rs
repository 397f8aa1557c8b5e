//! Reports of a session's host to its parent `openuvr session`. They are two files in the session's folder, from which
//! the JSON lines for the launcher are created.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::ticket::SessionUuid;
use openuvr_runtime::client::link::key_text;
use rustix::process::{Pid, getpid, getppid, set_child_subreaper};
use serde::{Deserialize, Serialize};

use crate::sys::close_inherited_on_exec;

/// The environment variable with the path of the session's folder.
pub const FOLDER: &str = "OPENUVR_SESSION_FOLDER";

/// The environment variable with the process id of `openuvr session`. The application inherits it, too, but is not a
/// child of that process.
pub(crate) const PARENT: &str = "OPENUVR_SESSION_PARENT";

/// The X authority file of the session's display, in the session's folder.
pub const AUTHORITY: &str = "xauthority";

const RUNNING: &str = "running.json";
const END: &str = "end.json";

/// The maximum size of each file in bytes.
const MAX_BYTES: u64 = 16 * 1024;

/// The addresses of a running session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RunningReport {
    pub(crate) native: Option<SocketAddr>,
    /// The host's key, in base64url.
    pub(crate) key: String,
    /// The address that serves the portal over HTTPS; `None` if only `socket` serves it.
    pub(crate) web: Option<SocketAddr>,
    /// The SHA-256 fingerprint of the certificate at that address.
    pub(crate) fingerprint: String,
    /// The Unix socket that serves the portal instead of `web`.
    #[serde(default)]
    pub(crate) socket: Option<PathBuf>,
    /// The streamed display, if any.
    pub(crate) display: Option<String>,
}

/// The result of the session, as determined by the host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EndReport {
    pub(crate) code: u8,
    pub(crate) why: String,
}

/// The reporter of a host that `openuvr session` has started.
pub struct Reporter {
    folder: PathBuf,
    /// The parent process.
    parent: Option<Pid>,
}

static REPORTER: OnceLock<Reporter> = OnceLock::new();

/// Enables reports if `openuvr session` has started this process. Call this in a host before its application starts.
pub fn init() {
    if let Some(reporter) = Reporter::of_process() {
        // The application must not inherit the locks of the session's folders.
        close_inherited_on_exec();
        let _ = REPORTER.set(reporter);
    }
}

/// The reporter, if this process is the host of a session.
pub fn reporter() -> Option<&'static Reporter> {
    REPORTER.get()
}

impl Reporter {
    fn of_process() -> Option<Reporter> {
        let folder = PathBuf::from(std::env::var_os(FOLDER)?);
        // The parent is recognised by its process id, because its `/proc/PID/exe` is not readable if the program has a
        // capability (`openuvr setup`).
        let parent = getppid()?;
        if std::env::var(PARENT).ok()? != parent.as_raw_nonzero().to_string() {
            return None;
        }
        // Orphans of the application become children of this process, which ends them.
        let _ = set_child_subreaper(Some(getpid()));
        Some(Reporter {
            folder,
            parent: Some(parent),
        })
    }

    /// The session's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reports that the session can be played.
    pub fn report_running(
        &self,
        native: Option<SocketAddr>,
        key: &PublicKey,
        page: Option<(SocketAddr, &str)>,
        display: Option<&str>,
    ) {
        let (web, fingerprint) = page.unzip();
        let running = RunningReport {
            native,
            key: key_text(key),
            web,
            fingerprint: fingerprint.unwrap_or_default().to_owned(),
            socket: None,
            display: display.map(str::to_owned),
        };
        self.write(RUNNING, &running);
    }

    /// Reports the end and its reason. Only the first report counts.
    pub fn report_end(&self, code: u8, why: String) {
        if !self.folder.join(END).exists() {
            self.write(END, &EndReport { code, why });
        }
    }

    /// Ends the reports. If the parent was killed, this process removes the session's folder, which contains a key.
    pub fn finish(&self) {
        if getppid() != self.parent {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    /// Writes a file atomically.
    fn write(&self, name: &str, report: &impl Serialize) {
        let file = self.folder.join(name);
        let partial = self.folder.join(format!("{name}.new"));
        let written = serde_json::to_vec(report)
            .map_err(std::io::Error::other)
            .and_then(|bytes| fs::write(&partial, bytes))
            .and_then(|()| fs::rename(&partial, &file));
        if let Err(e) = written {
            eprintln!("openuvr session: can't write {}: {e}", file.display());
        }
    }
}

impl RunningReport {
    /// The JSON line for the launcher.
    pub(crate) fn line(
        &self,
        session: SessionUuid,
        reached_as: Option<IpAddr>,
    ) -> serde_json::Value {
        let at = |mut address: SocketAddr| {
            address.set_ip(reached_as.unwrap_or(address.ip()));
            address
        };
        let mut line = serde_json::json!({
            "session": session.to_string(),
            "fingerprint": self.fingerprint,
            "key": self.key,
        });
        match (&self.socket, self.web) {
            (Some(socket), _) => line["web"] = format!("unix:{}", socket.display()).into(),
            (None, Some(web)) => line["web"] = format!("https://{}", at(web)).into(),
            (None, None) => {}
        }
        if let Some(native) = self.native {
            line["native"] = at(native).to_string().into();
        }
        line
    }
}

/// The addresses of the session, once it can be played.
pub(crate) fn read_running(folder: &Path) -> Option<RunningReport> {
    read(&folder.join(RUNNING))
}

/// The result, once it has been reported.
pub(crate) fn read_end(folder: &Path) -> Option<EndReport> {
    read(&folder.join(END))
}

fn read<T: for<'a> Deserialize<'a>>(file: &Path) -> Option<T> {
    let short = fs::metadata(file).is_ok_and(|about| about.len() <= MAX_BYTES);
    let bytes = short.then(|| fs::read(file).ok()).flatten()?;
    serde_json::from_slice(&bytes).ok()
}

pub(crate) fn print_line(line: &serde_json::Value) {
    println!("{line}");
}
