//! Sessions as processes on this machine, without a daemon.
//!
//! Each session has a folder (`folder`) and a process group. The program's output goes to files in the folder, not to
//! pipes, so sessions survive the portal. A restarted portal finds the folders and compares them with the running
//! processes. A program that has been started is never started again. If its process has disappeared without a recorded
//! end, the session is [`Phase::Lost`].
//!
//! Sessions are not isolated from each other. Applications run as the portal's user, or as another user if the
//! configured session program switches to one.

mod environment;
mod folder;
mod follow;
mod process;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use rustix::process::Pid;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, broadcast};
use tracing::{info, warn};

use self::folder::{End, Folder};
use self::process::Process;
use super::{LaunchError, LaunchSpec, Launcher, Observed, Phase, Server, SessionId};
use crate::descriptors;

/// Name in the configuration.
pub const NAME: &str = "local";

/// Number of changes by which a watcher may lag behind. A watcher that lags further gets a full list instead. The value
/// is a guess, for a thousand sessions that change at the same time.
const WATCH_BACKLOG: usize = 4096;

/// Configuration of the local launcher.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// The folder that contains the folders of all sessions. It is created if it is missing. Its file system must
    /// support locks.
    pub folder: PathBuf,
    /// The session program and its first arguments, such as `openuvr session`.
    pub program: Vec<OsString>,
    /// Maximum number of concurrent sessions.
    pub places: u32,
    /// Number of GPUs that all sessions share.
    pub gpus: u32,
    /// Maximum number of queued sessions. A launch beyond this number returns [`LaunchError::Full`].
    pub queue: u32,
    /// Names of the portal's environment variables that sessions inherit in addition to the default ones.
    pub environment: Vec<String>,
}

/// The launcher. Clones share one state.
#[derive(Clone)]
pub struct Local {
    shared: Arc<Shared>,
}

struct Shared {
    config: LocalConfig,
    /// This machine's name.
    name: String,
    sessions: Mutex<BTreeMap<SessionId, Entry>>,
    changes: broadcast::Sender<Observed>,
    /// The lock of the folder of all sessions.
    _lock: File,
}

struct Entry {
    folder: Folder,
    spec: LaunchSpec,
    phase: Phase,
    launched: Option<SystemTime>,
    process: Option<Process>,
    stop: Option<Stop>,
    /// Wakes the task that follows the session after `stop` has been set.
    ordered: Arc<Notify>,
}

#[derive(Clone)]
struct Stop {
    grace: Duration,
    why: &'static str,
}

impl Local {
    /// Opens the folder of all sessions and finds the running ones. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the folder is not usable, or if another portal uses it.
    pub fn open(config: LocalConfig) -> io::Result<Local> {
        let lock = folder::take(&config.folder).map_err(|why| {
            let at = config.folder.display();
            let text = match why.kind() {
                ErrorKind::WouldBlock => {
                    format!("another portal uses {at}: stop it, or use another folder")
                }
                _ => format!("{at}: {why}"),
            };
            io::Error::new(why.kind(), text)
        })?;
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        // /proc contains canonical paths, and the folder's paths are compared with them.
        let folder = config.folder.canonicalize()?;
        let shared = Arc::new(Shared {
            config: LocalConfig { folder, ..config },
            name: name.trim().to_owned(),
            sessions: Mutex::default(),
            changes: broadcast::Sender::new(WATCH_BACKLOG),
            _lock: lock,
        });
        shared.adopt()?;
        shared.start_next();
        Ok(Local { shared })
    }
}

#[async_trait]
impl Launcher for Local {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError> {
        let (shared, spec) = (Arc::clone(&self.shared), spec.clone());
        // Runs in a blocking task, because file access may block.
        let launched = tokio::task::spawn_blocking(move || shared.launch(&spec)).await;
        launched.unwrap_or_else(|why| Err(LaunchError::Unavailable(why.to_string())))
    }

    async fn stop(&self, session: SessionId, grace: Duration) -> Result<(), LaunchError> {
        let why = "stopped";
        self.shared.stop(session, Stop { grace, why });
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Observed>, LaunchError> {
        Ok(self.shared.snapshot())
    }

    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>> {
        let shared = Arc::clone(&self.shared);
        // Subscribes before listing, so that no change is missed.
        let changes = shared.changes.subscribe();
        let state = (shared.snapshot(), changes, shared);
        stream::unfold(state, |(mut known, mut changes, shared)| async move {
            if known.is_empty() {
                known = match changes.recv().await {
                    Ok(change) => vec![change],
                    Err(broadcast::error::RecvError::Lagged(_)) => shared.snapshot(),
                    Err(broadcast::error::RecvError::Closed) => return None,
                };
            }
            Some((
                stream::iter(std::mem::take(&mut known)).map(Ok),
                (known, changes, shared),
            ))
        })
        .flatten()
        .boxed()
    }

    async fn log(&self, session: SessionId) -> Result<Option<String>, LaunchError> {
        let folder = self.shared.lock().get(&session).map(|of| of.folder.clone());
        let Some(folder) = folder else {
            return Ok(None);
        };
        let read = tokio::task::spawn_blocking(move || folder.log()).await;
        let unavailable =
            |why: String| LaunchError::Unavailable(format!("cannot read the session's log: {why}"));
        read.map_err(|why| unavailable(why.to_string()))?
            .map_err(|why| unavailable(why.to_string()))
    }

    async fn servers(&self) -> Result<Vec<Server>, LaunchError> {
        let (sessions, gpus_used) = in_use(&self.shared.lock());
        let load = fs::read_to_string("/proc/loadavg").ok();
        let load = load.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let processors = std::thread::available_parallelism().ok();
        Ok(vec![Server {
            name: self.shared.name.clone(),
            ready: Ok(()),
            sessions,
            places: Some(self.shared.config.places),
            gpus_used,
            gpus: self.shared.config.gpus,
            load,
            processors: processors.and_then(|n| u32::try_from(n.get()).ok()),
        }])
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Entry>> {
        // Each change of the table consists of plain assignments, so the table stays consistent after a panic.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adopts the sessions of an earlier portal: compares the folders with the running processes. Called once, when the
    /// launcher is opened.
    fn adopt(self: &Arc<Shared>) -> io::Result<()> {
        for (session, folder) in folder::all(&self.config.folder)? {
            let spec = match folder.spec() {
                Ok(spec) if spec.session == session => spec,
                Ok(_) => continue,
                Err(why) => {
                    warn!(%session, "the session is ignored, because its folder cannot be read: {why}");
                    continue;
                }
            };
            let process = folder.process();
            let phase = match (folder.end(), &process) {
                (Some(End::Ended { code, why }), _) => Phase::Ended { code, why },
                (Some(End::Lost { since }), _) => Phase::Lost { since },
                (None, Some(_)) => Phase::Starting,
                (None, None) if !folder.has_started() => self.queued(),
                (None, None) => {
                    let left = process::sweep(&session.to_string());
                    warn!(%session, left, "the session's program had disappeared when the portal started");
                    let since = SystemTime::now();
                    if let Err(why) = folder.write_end(&End::Lost { since }) {
                        warn!(%session, "cannot record that the session is lost: {why}");
                    }
                    Phase::Lost { since }
                }
            };
            let stop = folder.is_to_stop().then_some(Stop {
                grace: Duration::ZERO,
                why: "stopped",
            });
            let (to_stop, follows) = (stop.is_some(), phase == Phase::Starting);
            let entry = Entry {
                launched: folder.launched(),
                folder,
                spec,
                phase,
                process: process.clone(),
                stop: None,
                ordered: Arc::default(),
            };
            self.lock().insert(session, entry);
            if let (true, Some(process)) = (follows, process) {
                info!(%session, pid = process.pid(), "resumed");
                follow::follow(self, session, process, None);
            }
            if let (true, Some(stop)) = (to_stop, stop) {
                self.stop(session, stop);
            }
        }
        Ok(())
    }

    fn launch(self: &Arc<Shared>, spec: &LaunchSpec) -> Result<(), LaunchError> {
        if spec.gpus > self.config.gpus {
            return Err(LaunchError::BadApplication(format!(
                "needs {} GPUs, but this machine has {} for sessions",
                spec.gpus, self.config.gpus
            )));
        }
        let mut sessions = self.lock();
        if sessions.contains_key(&spec.session) {
            return Ok(());
        }
        let waiting = sessions.values().filter(|of| is_queued(&of.phase)).count();
        let now = waiting == 0 && self.fits(&sessions, spec);
        if !now && waiting as u64 >= u64::from(self.config.queue) {
            return Err(LaunchError::Full(self.full()));
        }
        let unavailable = |why: io::Error| {
            let at = self.config.folder.display();
            LaunchError::Unavailable(format!("cannot write to {at}: {why}"))
        };
        let Some(folder) = Folder::make(&self.config.folder, spec).map_err(unavailable)? else {
            return Ok(());
        };
        let entry = Entry {
            launched: Some(SystemTime::now()),
            folder,
            spec: spec.clone(),
            phase: self.queued(),
            process: None,
            stop: None,
            ordered: Arc::default(),
        };
        if !now {
            self.notify(spec.session, &entry);
        }
        sessions.insert(spec.session, entry);
        drop(sessions);
        self.start_next();
        Ok(())
    }

    /// Starts queued sessions, oldest first, while there is capacity.
    fn start_next(self: &Arc<Shared>) {
        loop {
            let mut sessions = self.lock();
            // A queued session with a stop request never starts.
            let waiting =
                (sessions.iter()).filter(|(_, of)| is_queued(&of.phase) && of.stop.is_none());
            let oldest = waiting.min_by_key(|(session, of)| (of.launched, **session));
            let Some((&session, entry)) = oldest else {
                return;
            };
            if !self.fits(&sessions, &entry.spec) {
                return;
            }
            let Some(entry) = sessions.get_mut(&session) else {
                return;
            };
            entry.phase = Phase::Starting;
            self.notify(session, entry);
            match self.spawn(entry) {
                Ok((child, process)) => {
                    entry.process = Some(process.clone());
                    info!(%session, pid = process.pid(), user = entry.spec.user,
                          application = entry.spec.application, "started");
                    drop(sessions);
                    follow::follow(self, session, process, Some(child));
                }
                Err(why) => {
                    drop(sessions);
                    self.over(session, None, why);
                }
            }
        }
    }

    fn spawn(&self, entry: &Entry) -> Result<(Child, Process), String> {
        let spec = &entry.spec;
        let [program, first @ ..] = self.config.program.as_slice() else {
            return Err("the portal's configuration has no session program".to_owned());
        };
        let kept = |why: io::Error| format!("cannot write the session's folder: {why}");
        entry.folder.mark_started().map_err(kept)?;
        let [held, said, log] = entry.folder.files().map_err(kept)?;
        let mut command = Command::new(program);
        let environment = environment::allowed(std::env::vars_os(), &self.config.environment);
        command
            .args(first)
            .args(&spec.words)
            .env_clear()
            .envs(environment)
            .envs(&spec.environment)
            .env(process::VARIABLE, spec.session.to_string())
            .stdin(Stdio::from(held))
            .stdout(Stdio::from(said))
            .stderr(Stdio::from(log))
            .process_group(0);
        let named = |why: io::Error| {
            let program = program.display();
            format!("cannot start the session program {program}: {why}")
        };
        let child = command.spawn().map_err(named)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            descriptors::give(pid);
        }
        // A child that has exited stays a zombie until this process waits for it. `Process::of` would not find a
        // zombie.
        let process = pid.and_then(Process::of_any);
        let process = process.ok_or("the session program exited immediately")?;
        if let Err(why) = entry.folder.write_process(&process) {
            // A restarted portal can still identify the process by its standard input.
            warn!(session = %spec.session, "cannot record the session's process: {why}");
        }
        Ok((child, process))
    }

    /// Records that the session has ended.
    fn over(self: &Arc<Shared>, session: SessionId, code: Option<i32>, why: String) {
        let left = process::sweep(&session.to_string());
        let mut sessions = self.lock();
        if let Some(entry) = sessions.get_mut(&session) {
            info!(%session, ?code, left, "ended: {why}");
            let end = End::Ended {
                code,
                why: why.clone(),
            };
            if let Err(failed) = entry.folder.write_end(&end) {
                warn!(%session, "cannot record the session's end: {failed}");
            }
            entry.phase = Phase::Ended { code, why };
            entry.process = None;
            self.notify(session, entry);
            if entry.stop.is_some() {
                self.forget(&mut sessions, session);
            }
        }
        drop(sessions);
        self.start_next();
    }

    fn stop(self: &Arc<Shared>, session: SessionId, stop: Stop) {
        let mut sessions = self.lock();
        let Some(entry) = sessions.get_mut(&session) else {
            return;
        };
        if entry.phase.is_final() {
            self.forget(&mut sessions, session);
            return;
        }
        // The file keeps the stop request effective even if the portal ends before the session does.
        entry.folder.order_stop();
        let waits = is_queued(&entry.phase);
        entry.stop = Some(stop);
        entry.ordered.notify_one();
        drop(sessions);
        if waits {
            let why = "stopped before it started";
            self.over(session, None, why.to_owned());
        }
    }

    fn forget(&self, sessions: &mut BTreeMap<SessionId, Entry>, session: SessionId) {
        if let Some(entry) = sessions.remove(&session)
            && let Err(why) = entry.folder.remove()
        {
            warn!(%session, "cannot remove the session's folder: {why}");
        }
    }

    fn set_running(&self, session: SessionId, endpoint: super::Endpoint) {
        let mut sessions = self.lock();
        if let Some(entry) = sessions.get_mut(&session) {
            entry.phase = Phase::Running { endpoint };
            self.notify(session, entry);
        }
    }

    fn fits(&self, sessions: &BTreeMap<SessionId, Entry>, spec: &LaunchSpec) -> bool {
        let (used, gpus) = in_use(sessions);
        used < self.config.places && gpus + spec.gpus <= self.config.gpus
    }

    fn queued(&self) -> Phase {
        Phase::Queued { why: self.full() }
    }

    fn full(&self) -> String {
        let LocalConfig { places, gpus, .. } = self.config;
        match gpus {
            0 => format!("all {places} session slots of this machine are in use"),
            _ => {
                format!("all {places} session slots or all {gpus} GPUs of this machine are in use")
            }
        }
    }

    fn notify(&self, session: SessionId, entry: &Entry) {
        // An error means that there is no watcher.
        let _ = self.changes.send(self.observed(session, entry));
    }

    fn snapshot(&self) -> Vec<Observed> {
        let sessions = self.lock();
        let all = sessions.iter();
        all.map(|(session, entry)| self.observed(*session, entry))
            .collect()
    }

    fn observed(&self, session: SessionId, entry: &Entry) -> Observed {
        let pid = entry.process.as_ref().map(Process::pid);
        Observed {
            session,
            user: entry.spec.user.clone(),
            application: entry.spec.application.clone(),
            phase: entry.phase.clone(),
            server: (!is_queued(&entry.phase)).then(|| self.name.clone()),
            engine_ref: pid.map_or_else(String::new, |pid| format!("process {pid}")),
            launched: entry.launched,
        }
    }
}

fn is_queued(phase: &Phase) -> bool {
    matches!(phase, Phase::Queued { .. })
}

/// The numbers of session slots and GPUs in use.
fn in_use(sessions: &BTreeMap<SessionId, Entry>) -> (u32, u32) {
    let with = sessions
        .values()
        .filter(|of| matches!(of.phase, Phase::Starting | Phase::Running { .. }));
    with.fold((0, 0), |(used, gpus), of| (used + 1, gpus + of.spec.gpus))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A queued session in `folder`.
    fn entry(folder: &Path) -> Entry {
        let spec = LaunchSpec {
            session: SessionId::random(),
            user: "ada".to_owned(),
            application: "game".to_owned(),
            words: Vec::new(),
            environment: BTreeMap::new(),
            gpus: 0,
            millicores: 0,
            memory: 0,
            zone: None,
            max_duration: None,
            writable_root: false,
        };
        Entry {
            folder: Folder::make(folder, &spec).unwrap().unwrap(),
            spec,
            phase: Phase::Queued { why: String::new() },
            launched: None,
            process: None,
            stop: None,
            ordered: Arc::default(),
        }
    }

    fn open(folder: &Path) -> Local {
        let config = LocalConfig {
            folder: folder.to_owned(),
            program: vec!["true".into()],
            places: 1,
            gpus: 0,
            queue: 8,
            environment: Vec::new(),
        };
        Local::open(config).unwrap()
    }

    #[tokio::test]
    async fn a_queued_session_with_a_stop_order_does_not_start() {
        let folder = tempfile::tempdir().unwrap();
        let local = open(folder.path());
        let shared = &local.shared;
        let mut entry = entry(folder.path());
        entry.stop = Some(Stop {
            grace: Duration::ZERO,
            why: "stopped",
        });
        let session = entry.spec.session;
        shared.lock().insert(session, entry);
        // As if a session ended between the stop request and its execution.
        shared.start_next();
        assert!(is_queued(&shared.lock()[&session].phase));
    }

    #[tokio::test]
    async fn a_time_limit_does_not_count_the_time_in_the_queue() {
        let folder = tempfile::tempdir().unwrap();
        let local = open(folder.path());
        let mut changes = local.watch();
        let mut entry = entry(folder.path());
        entry.launched = Some(SystemTime::UNIX_EPOCH);
        entry.spec.max_duration = Some(Duration::from_secs(3600));
        local.shared.lock().insert(entry.spec.session, entry);
        local.shared.start_next();
        let why = loop {
            let change = changes.next().await.unwrap().unwrap();
            if let Phase::Ended { why, .. } = change.phase {
                break why;
            }
        };
        assert_eq!(why, "the application exited");
    }
}
