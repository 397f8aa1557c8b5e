//! Launchers. An engine is a system that runs sessions: this machine, Kubernetes or Slurm. The launcher of an engine
//! starts, stops and finds sessions there. All launchers implement one trait. Each engine has one module and one entry
//! in [`LAUNCHERS`].
//!
//! Only the engine determines which sessions exist, where they run, and which state they have. The portal does not
//! store this information itself, so its database cannot disagree with the engine. A launcher makes no decisions about
//! users, and never restarts a session that has ended or is lost.
//!
//! When the program of a session is ready, it prints one line of JSON to standard output ([`Endpoint`]). Every launcher
//! passes the same arguments to the program ([`LaunchSpec::words`]), so sessions do not depend on the launcher.

mod endpoint;
pub mod kubernetes;
pub mod local;
mod log;
mod poll;
pub mod slurm;
mod spec;

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::stream::BoxStream;

pub(crate) use self::endpoint::EndpointKind;
pub use self::endpoint::{Endpoint, LineError, MAX_LINE};
pub use self::log::MAX_TAIL;
pub use self::spec::{LaunchSpec, SessionId, SessionIdError};

/// The engines by their names in the portal's configuration (`launcher = "local"`).
pub const LAUNCHERS: &[&str] = &[
    local::NAME,
    #[cfg(feature = "kubernetes")]
    kubernetes::NAME,
    slurm::NAME,
];

/// Starts, stops and finds sessions. All methods may be called concurrently from any task.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Name in the configuration and in messages.
    fn name(&self) -> &'static str;

    /// Starts a session, or queues it in the engine. The call is idempotent: if the engine already knows
    /// [`LaunchSpec::session`], in any phase, nothing changes. Returns when the engine has accepted the session, not
    /// when the session is running.
    ///
    /// # Errors
    /// Returns an error if the engine has not accepted the session. The session then does not exist. After
    /// [`LaunchError::Unavailable`], however, it may exist; [`list`](Launcher::list) shows whether it does.
    async fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError>;

    /// Ends a session and forgets it. The session is terminated, and after `grace` all its processes are killed (Slurm
    /// uses its own `KillWait` instead of `grace`). A session that has already ended is only forgotten. The call is
    /// idempotent: it succeeds for unknown sessions. Returns when the engine has accepted the request;
    /// [`watch`](Launcher::watch) reports the end.
    ///
    /// # Errors
    /// Returns an error if the engine is unavailable.
    async fn stop(&self, session: SessionId, grace: Duration) -> Result<(), LaunchError>;

    /// All sessions in the engine. Ended sessions are included until they are forgotten.
    ///
    /// # Errors
    /// Returns an error if the engine is unavailable. The error does not imply that any session has ended.
    async fn list(&self) -> Result<Vec<Observed>, LaunchError>;

    /// A stream of changes: first the current state of each session, then every change. The stream may repeat a state,
    /// and may omit a short-lived one, but never omits the latest state. The stream does not end. An error means that
    /// the engine is unavailable; the stream continues when the engine is available again.
    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>>;

    /// The newest lines that a session's programs have written to standard error, at most [`MAX_TAIL`] bytes of plain
    /// text. `None` if the engine keeps no log of the session, or has forgotten the session.
    ///
    /// # Errors
    /// Returns an error if the engine is unavailable or the log cannot be read.
    async fn log(&self, session: SessionId) -> Result<Option<String>, LaunchError>;

    /// The servers that run sessions.
    ///
    /// # Errors
    /// Returns an error if the engine is unavailable.
    async fn servers(&self) -> Result<Vec<Server>, LaunchError>;
}

/// A session as its engine reports it.
#[derive(Clone, PartialEq, Debug)]
pub struct Observed {
    /// The session's identifier.
    pub session: SessionId,
    /// The session's owner: [`LaunchSpec::user`].
    pub user: String,
    /// [`LaunchSpec::application`].
    pub application: String,
    /// The session's state.
    pub phase: Phase,
    /// The server that runs the session; `None` until the engine has chosen one.
    pub server: Option<String>,
    /// The session's identifier in the engine (a process, a Pod, or a job), for operators.
    pub engine_ref: String,
    /// Launch time, if the engine reports it.
    pub launched: Option<SystemTime>,
}

/// The state of a session.
#[derive(Clone, PartialEq, Debug)]
pub enum Phase {
    /// The engine has accepted the session, but has no capacity yet.
    Queued {
        /// The reason, in the engine's own text.
        why: String,
    },
    /// The session has been assigned to a server, but its program is not ready.
    Starting,
    /// The session can be played.
    Running {
        /// The session's endpoint.
        endpoint: Endpoint,
    },
    /// The session has ended.
    Ended {
        /// Exit code of the session's program. `None` if the program never ran, if a signal ended it, or if the engine
        /// does not report the code.
        code: Option<i32>,
        /// The reason, in one line.
        why: String,
    },
    /// The session's state is unknown: its server does not respond, or its program had disappeared when the launcher
    /// checked. The session may still be running, and is not restarted.
    Lost {
        /// When the state became unknown.
        since: SystemTime,
    },
}

impl Phase {
    /// Whether the session can no longer become [`Phase::Running`], because it has ended or is lost.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Phase::Ended { .. } | Phase::Lost { .. })
    }
}

/// A server that runs sessions.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// The server's name.
    pub name: String,
    /// `Ok` if the server accepts sessions; otherwise the reason.
    pub ready: Result<(), String>,
    /// Number of sessions on the server.
    pub sessions: u32,
    /// Maximum number of sessions; `None` if there is no limit.
    pub places: Option<u32>,
    /// GPUs in use.
    pub gpus_used: u32,
    /// GPUs for sessions.
    pub gpus: u32,
    /// Load average over a minute (`/proc/loadavg`), if known.
    pub load: Option<f64>,
    /// Number of logical processors, if known.
    pub processors: Option<u32>,
}

/// Why an engine refused a request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no capacity, and the queue is full.
    #[error("no capacity: {0}")]
    Full(String),
    /// The engine does not permit the session, because of a quota or because the portal lacks permissions.
    #[error("not permitted: {0}")]
    Denied(String),
    /// The engine does not respond. Running sessions are not affected.
    #[error("{0}")]
    Unavailable(String),
    /// The engine can never start this application.
    #[error("this application cannot be started: {0}")]
    BadApplication(String),
}
