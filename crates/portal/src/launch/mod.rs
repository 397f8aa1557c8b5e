//! Launchers start, stop and find sessions. There is one trait, and each engine has one module and one entry in
//! [`LAUNCHERS`].
//!
//! Only the engine determines which sessions exist, where they run, and their states; the portal keeps no table that could
//! disagree with it. A launcher makes no decisions about users and never restarts a session that has ended or was lost.
//!
//! The program of a session prints one line of JSON to standard output when it is ready ([`Endpoint`]). Every launcher
//! passes it the same arguments ([`LaunchSpec::words`]), so sessions do not depend on the launcher.

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

    /// Starts a session, or queues it in the engine. Idempotent on [`LaunchSpec::session`]: a known session, in any phase,
    /// is not changed. Returns when the engine has accepted the session, not when it is running.
    ///
    /// # Errors
    /// Returns an error if the engine has not accepted the session, which then does not exist. After
    /// [`LaunchError::Unavailable`], this is unknown; see [`list`](Launcher::list).
    async fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError>;

    /// Ends a session and forgets it. It is terminated, and after `grace` it is killed with all its processes. If it has
    /// already ended, it is only forgotten. The call is idempotent: it succeeds for unknown sessions. Returns when the
    /// engine has accepted the request; [`watch`](Launcher::watch) reports the end.
    ///
    /// # Errors
    /// Returns an error if the engine is unavailable.
    async fn stop(&self, session: SessionId, grace: Duration) -> Result<(), LaunchError>;

    /// All sessions in the engine, including ended ones until they are forgotten.
    ///
    /// # Errors
    /// Returns an error if the engine is unavailable. This does not imply anything about any session.
    async fn list(&self) -> Result<Vec<Observed>, LaunchError>;

    /// Changes of sessions: first the current state of each, then every change. A state may be repeated, and a
    /// short-lived one may be omitted; the last one is never omitted. The stream does not end: an error means that the
    /// engine is unavailable, and the stream continues when it is available again.
    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>>;

    /// The newest lines that a session's programs have written to standard error, at most [`MAX_TAIL`] bytes of plain text.
    /// `None` if the engine keeps no log of it, or has forgotten the session.
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
    /// Its identifier.
    pub session: SessionId,
    /// Its owner: [`LaunchSpec::user`].
    pub user: String,
    /// [`LaunchSpec::application`].
    pub application: String,
    /// Its state.
    pub phase: Phase,
    /// The server, once one is chosen.
    pub server: Option<String>,
    /// Its identifier in the engine (a process, a Pod, or a job), for operators.
    pub engine_ref: String,
    /// Launch time, if the engine reports it.
    pub launched: Option<SystemTime>,
}

/// The state of a session.
#[derive(Clone, PartialEq, Debug)]
pub enum Phase {
    /// The engine has accepted it, but has no capacity yet.
    Queued {
        /// The reason, in the engine's own text.
        why: String,
    },
    /// It has been placed on a server, but its program is not ready.
    Starting,
    /// It can be played.
    Running {
        /// Its endpoint.
        endpoint: Endpoint,
    },
    /// It has ended.
    Ended {
        /// Exit code of its program, if the engine reports it; also `None` after a signal.
        code: Option<i32>,
        /// The reason, in one line.
        why: String,
    },
    /// Its state is unknown: its server does not respond, or its program had disappeared when the launcher checked. It may
    /// still be running, and is not restarted.
    Lost {
        /// The time since which its state has been unknown.
        since: SystemTime,
    },
}

impl Phase {
    /// Whether it has ended or is lost from the user's point of view: it can no longer become [`Phase::Running`].
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Phase::Ended { .. } | Phase::Lost { .. })
    }
}

/// A server that runs sessions.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Whether it accepts sessions, or the reason why not.
    pub ready: Result<(), String>,
    /// Sessions on it.
    pub sessions: u32,
    /// Maximum number of sessions, if limited.
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
    /// The engine does not permit it, because of a quota or missing permissions of the portal.
    #[error("not permitted: {0}")]
    Denied(String),
    /// The engine does not respond. Running sessions are not affected.
    #[error("{0}")]
    Unavailable(String),
    /// The application can never be started.
    #[error("this application cannot be started: {0}")]
    BadApplication(String),
}
