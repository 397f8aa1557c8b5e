//! Sessions as processes of this machine, without a daemon.
//!
//! Each session has a folder (`folder`) and a process group of its own. The program's output goes to files
//! there, not to pipes, so sessions outlive the portal; the next one finds them by what the folders say, which
//! is checked against what runs. No program is started where its folder says that one was: if that one is gone
//! and nobody saw how, the session is [`Phase::Lost`].
//!
//! What it is not: a wall between sessions. Applications run as the portal's user, or as whom the configured
//! program changes to.

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

/// Its name in the configuration.
pub const NAME: &str = "local";

/// Changes that a watcher may be behind before it is told everything anew; a guess, for a thousand sessions
/// that change at once.
const BEHIND: usize = 4096;

/// How it works.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Where the sessions' folders are; made if missing. On a file system that locks files.
    pub folder: PathBuf,
    /// The program of a session with its first words, as `openuvr session`.
    pub program: Vec<OsString>,
    /// Sessions at a time.
    pub places: u32,
    /// GPUs that sessions may have together.
    pub gpus: u32,
    /// Sessions that wait for a place at most; more are [`LaunchError::Full`].
    pub queue: u32,
    /// Variables of the portal's environment that sessions get beside those that programs need.
    pub environment: Vec<String>,
}

/// The launcher. Clones are the same.
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
    /// Held for as long as this process works in the folder.
    _lock: File,
}

struct Entry {
    folder: Folder,
    spec: LaunchSpec,
    phase: Phase,
    launched: Option<SystemTime>,
    process: Option<Process>,
    stop: Option<Stop>,
    /// Wakes who follows it when `stop` has been set.
    ordered: Arc<Notify>,
}

#[derive(Clone)]
struct Stop {
    grace: Duration,
    why: &'static str,
}

impl Local {
    /// Opens the folder, and finds what runs there. In a runtime of tokio.
    ///
    /// # Errors
    /// The folder can't be used, or another portal uses it.
    pub fn open(config: LocalConfig) -> io::Result<Local> {
        let lock = folder::take(&config.folder).map_err(|why| {
            let at = config.folder.display();
            let text = match why.kind() {
                ErrorKind::WouldBlock => {
                    format!("another portal works in {at}; end it, or name another folder")
                }
                _ => format!("{at}: {why}"),
            };
            io::Error::new(why.kind(), text)
        })?;
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        // As /proc names files.
        let folder = config.folder.canonicalize()?;
        let shared = Arc::new(Shared {
            config: LocalConfig { folder, ..config },
            name: name.trim().to_owned(),
            sessions: Mutex::default(),
            changes: broadcast::Sender::new(BEHIND),
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
        // It waits for the disk.
        let launched = tokio::task::spawn_blocking(move || shared.launch(&spec)).await;
        launched.unwrap_or_else(|why| Err(LaunchError::Unavailable(why.to_string())))
    }

    async fn stop(&self, session: SessionId, grace: Duration) -> Result<(), LaunchError> {
        let why = "it was stopped";
        self.shared.stop(session, Stop { grace, why });
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Observed>, LaunchError> {
        Ok(self.shared.snapshot())
    }

    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>> {
        let shared = Arc::clone(&self.shared);
        // Before the list, so that nothing falls between.
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
            |why: String| LaunchError::Unavailable(format!("the session's log: {why}"));
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
        // Each change of the table is one assignment: it is whole also after a panic.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the folders say and what runs, once, when the launcher is opened.
    fn adopt(self: &Arc<Shared>) -> io::Result<()> {
        for (session, folder) in folder::all(&self.config.folder)? {
            let spec = match folder.spec() {
                Ok(spec) if spec.session == session => spec,
                Ok(_) => continue,
                Err(why) => {
                    warn!(%session, "its folder can't be read, and is left alone: {why}");
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
                    warn!(%session, left, "its program was gone when the portal came back");
                    let since = SystemTime::now();
                    if let Err(why) = folder.write_end(&End::Lost { since }) {
                        warn!(%session, "can't write that it is lost: {why}");
                    }
                    Phase::Lost { since }
                }
            };
            let stop = folder.is_to_stop().then_some(Stop {
                grace: Duration::ZERO,
                why: "it was stopped",
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
                info!(%session, pid = process.pid(), "found again");
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
                "it needs {} GPUs, and this machine has {} for sessions",
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
            LaunchError::Unavailable(format!("can't write to {at}: {why}"))
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

    /// Starts those that wait, the oldest first, while there is room for it.
    fn start_next(self: &Arc<Shared>) {
        loop {
            let mut sessions = self.lock();
            let waiting = sessions.iter().filter(|(_, of)| is_queued(&of.phase));
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
            return Err("the portal's configuration names no program of sessions".to_owned());
        };
        let kept = |why: io::Error| format!("its folder can't be written: {why}");
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
            format!("the program of sessions, {program}, can't be started: {why}")
        };
        let child = command.spawn().map_err(named)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            descriptors::give(pid);
        }
        // One that has ended already is not waited for yet, so its number is its own; what began it is unknown.
        let process = pid.and_then(Process::of_any);
        let process = process.ok_or("its program ended at once")?;
        if let Err(why) = entry.folder.write_process(&process) {
            // It is found by its standard input.
            warn!(session = %spec.session, "can't write which process it is: {why}");
        }
        Ok((child, process))
    }

    /// The session has ended.
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
                warn!(%session, "can't write how it ended: {failed}");
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
        // Also where the portal does not live to see it through.
        entry.folder.order_stop();
        let waits = is_queued(&entry.phase);
        entry.stop = Some(stop);
        entry.ordered.notify_one();
        drop(sessions);
        if waits {
            let why = "it was stopped before it began";
            self.over(session, None, why.to_owned());
        }
    }

    fn forget(&self, sessions: &mut BTreeMap<SessionId, Entry>, session: SessionId) {
        if let Some(entry) = sessions.remove(&session)
            && let Err(why) = entry.folder.remove()
        {
            warn!(%session, "its folder can't be taken away: {why}");
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
            0 => format!("all {places} places of this machine are in use"),
            _ => format!("all {places} places or {gpus} GPUs of this machine are in use"),
        }
    }

    fn notify(&self, session: SessionId, entry: &Entry) {
        // An error says that nobody watches.
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

/// Places and GPUs that sessions have.
fn in_use(sessions: &BTreeMap<SessionId, Entry>) -> (u32, u32) {
    let with = sessions
        .values()
        .filter(|of| matches!(of.phase, Phase::Starting | Phase::Running { .. }));
    with.fold((0, 0), |(used, gpus), of| (used + 1, gpus + of.spec.gpus))
}
