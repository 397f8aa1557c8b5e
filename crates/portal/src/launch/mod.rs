//! Launchers: what starts, stops and finds sessions. One trait, one file for each engine, one line each in
//! [`LAUNCHERS`].
//!
//! The engine alone knows which sessions exist, where and in what state; the portal keeps no table of them that
//! could disagree. What a launcher is not: it decides nothing about users, and starts nothing anew by itself. A
//! session that ended or was lost stays so.
//!
//! The program of a session prints one line of JSON to standard output once it runs ([`Endpoint`]). It is told
//! the same words by every launcher ([`LaunchSpec::words`]), so nothing of a session depends on who started it.

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
pub const LAUNCHERS: &[&str] = &[local::NAME, kubernetes::NAME, slurm::NAME];

/// What starts, stops and finds sessions. Called from any task; every call may be made at the same time as any
/// other.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Its name in the configuration and in messages.
    fn name(&self) -> &'static str;

    /// Starts a session, or has the engine queue it. Idempotent on [`LaunchSpec::session`]: for one that the
    /// engine knows already, in whatever phase, nothing happens. Returns when the engine has taken it, not when
    /// it runs.
    ///
    /// # Errors
    /// The engine did not take it: nothing of it exists. After [`LaunchError::Unavailable`] this is not known;
    /// [`list`](Launcher::list) tells.
    async fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError>;

    /// Ends a session and forgets it: it is asked to end, and after `grace` it is killed with all that it has
    /// started. One that has ended already is only forgotten. Idempotent: one that the engine does not know is
    /// a success. Returns when the engine has taken the order; [`watch`](Launcher::watch) tells of the end.
    ///
    /// # Errors
    /// The engine can't be asked.
    async fn stop(&self, session: SessionId, grace: Duration) -> Result<(), LaunchError>;

    /// All sessions that the engine knows, those that ended included until they are forgotten.
    ///
    /// # Errors
    /// The engine can't be asked. Nothing follows from this for any session.
    async fn list(&self) -> Result<Vec<Observed>, LaunchError>;

    /// What becomes of sessions: first each as it is, then every change of one. A state may be told more than
    /// once, and one that was soon left may be left out; the last is never left out. The stream does not end by
    /// itself: an error says that the engine can't be asked, and the stream goes on when it can be again.
    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>>;

    /// The newest lines that a session's programs wrote to standard error, [`MAX_TAIL`] bytes at most, as plain text.
    /// `None` where the engine keeps no log of it, or has forgotten the session.
    ///
    /// # Errors
    /// The engine can't be asked, or the log can't be read.
    async fn log(&self, session: SessionId) -> Result<Option<String>, LaunchError>;

    /// The machines that sessions run on.
    ///
    /// # Errors
    /// The engine can't be asked.
    async fn servers(&self) -> Result<Vec<Server>, LaunchError>;
}

/// A session as its engine knows it.
#[derive(Clone, PartialEq, Debug)]
pub struct Observed {
    /// Which one.
    pub session: SessionId,
    /// Who started it: [`LaunchSpec::user`].
    pub user: String,
    /// [`LaunchSpec::application`].
    pub application: String,
    /// Its state.
    pub phase: Phase,
    /// The machine, once one is chosen.
    pub server: Option<String>,
    /// What the engine calls it: a process, a Pod, a job. For people who look for it there.
    pub engine_ref: String,
    /// When it was launched, as far as the engine says.
    pub launched: Option<SystemTime>,
}

/// The state of a session.
#[derive(Clone, PartialEq, Debug)]
pub enum Phase {
    /// The engine has taken it, and has no room yet.
    Queued {
        /// What it waits for, in the engine's words.
        why: String,
    },
    /// It has a machine; its program has not said that it runs.
    Starting,
    /// It can be played.
    Running {
        /// Where.
        endpoint: Endpoint,
    },
    /// It is over.
    Ended {
        /// The exit code of its program, where the engine knows it; none also where a signal ended it.
        code: Option<i32>,
        /// Why, in one line.
        why: String,
    },
    /// Nobody knows how it is: its machine does not answer, or its program was gone when the launcher looked
    /// again. It may still run, and it is not started anew.
    Lost {
        /// Since when it is not known.
        since: SystemTime,
    },
}

impl Phase {
    /// Whether it is over or lost, for the person: it can't become [`Phase::Running`] any more.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Phase::Ended { .. } | Phase::Lost { .. })
    }
}

/// A machine that sessions run on.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Whether it takes sessions, or why not.
    pub ready: Result<(), String>,
    /// Sessions that have a place on it.
    pub sessions: u32,
    /// Sessions that it has places for, where that is a number.
    pub places: Option<u32>,
    /// GPUs that sessions were given.
    pub gpus_used: u32,
    /// GPUs that it has for sessions.
    pub gpus: u32,
    /// Load of its processors: running processes, averaged over a minute (`/proc/loadavg`), where known.
    pub load: Option<f64>,
    /// Its logical processors, where known.
    pub processors: Option<u32>,
}

/// Why an engine did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no room, and none is waited for.
    #[error("there is no room: {0}")]
    Full(String),
    /// The engine does not allow it: a quota, or rights that the portal lacks.
    #[error("it is not allowed: {0}")]
    Denied(String),
    /// The engine does not answer. Sessions that run are not touched by this.
    #[error("{0}")]
    Unavailable(String),
    /// What was to be started can't be, whenever it is tried.
    #[error("this application can't be started: {0}")]
    BadApplication(String),
}
