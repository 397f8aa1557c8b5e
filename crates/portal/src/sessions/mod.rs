//! The portal's sessions: their state in the engine, their owners, and the actions of users.
//!
//! The state in memory is a cache. After a restart, it is rebuilt from the launcher. The database adds sharing and
//! history.

mod control;
mod figures;
mod link;
mod registry;
mod signalling;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{self, MissedTickBehavior};
use tracing::{error, info, warn};

pub(crate) use self::control::Tickets;
use self::registry::Registry;
pub(crate) use self::registry::SessionState;
pub(crate) use self::signalling::{Visitor, page_options};
use crate::catalogue::{Application, Catalogue};
use crate::config::Limits;
use crate::launch::{
    Endpoint, LaunchError, LaunchSpec, Launcher, Observed, Phase, Server, SessionId,
};
use crate::store::{LaunchOwner, Store, StoreError, User};

/// Interval at which timeouts are checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of lease renewals: a sixth of the default duration of a session's lease (60 s).
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// Poll interval while the portal waits for the end of all sessions.
const END_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long an ended session stays visible.
const ENDED_VISIBLE: Duration = Duration::from_secs(120);

/// Why a user does not get a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The application does not exist, or this user may not start it.
    #[error("no such application")]
    NoApplication,
    /// The user's session limit is reached.
    #[error("session limit reached ({0}): stop a session first")]
    TooMany(u32),
    /// The user already has a session of this application, and an application with saves must not run twice at the same
    /// time.
    #[error(
        "{0} is already running, or the state of its last session is unknown: stop that session first, since two \
         sessions would overwrite each other's saves"
    )]
    Twice(String),
    /// The portal is draining.
    #[error(
        "no new sessions at present: the operator is preparing maintenance. Running sessions continue"
    )]
    Draining,
    /// The id belongs to another user's session.
    #[error("no such session")]
    NotYours,
    /// The session with this id has ended, or did not start.
    #[error("this session has ended: start a new one")]
    Over,
    /// The engine refused the session.
    #[error("{0}")]
    Launch(#[from] LaunchError),
    /// The database failed.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// All known sessions. The portal has one instance.
pub(crate) struct Sessions {
    launcher: Arc<dyn Launcher>,
    store: Store,
    catalogue: Arc<Catalogue>,
    tickets: Arc<Tickets>,
    limits: Limits,
    saves: std::path::PathBuf,
    ice_file: Option<std::path::PathBuf>,
    registry: Registry,
    /// Serializes the starts in this portal. Otherwise, two concurrent starts could both pass the limit check. A stop
    /// also takes this lock if the engine has not reported the session yet.
    starts: tokio::sync::Mutex<()>,
    /// Whether the engine has listed its sessions. Before that, the limits would not count the sessions of an earlier
    /// portal.
    is_listed: AtomicBool,
}

impl Sessions {
    pub(crate) fn new(
        launcher: Arc<dyn Launcher>,
        store: Store,
        catalogue: Arc<Catalogue>,
        tickets: Arc<Tickets>,
        limits: Limits,
        saves: std::path::PathBuf,
        ice_file: Option<std::path::PathBuf>,
    ) -> Sessions {
        Sessions {
            launcher,
            store,
            catalogue,
            tickets,
            limits,
            saves,
            ice_file,
            registry: Registry::default(),
            starts: tokio::sync::Mutex::default(),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Starts an application for a user. The user's browser or client has chosen the id `session`. The call is
    /// idempotent: a known session of the same user is not started again.
    pub(crate) async fn start(
        self: &Arc<Self>,
        session: SessionId,
        user: &User,
        application: &str,
    ) -> Result<(), StartError> {
        let (sessions, user, application) =
            (Arc::clone(self), user.clone(), application.to_owned());
        // The start runs in its own task, because this future is dropped if the browser disconnects. An interrupted
        // launch would leave the registry with a session that the engine does not have.
        let started =
            tokio::spawn(async move { sessions.start_to_end(session, &user, &application).await });
        let failed = |why: JoinError| Err(LaunchError::Unavailable(why.to_string()).into());
        started.await.unwrap_or_else(failed)
    }

    async fn start_to_end(
        &self,
        session: SessionId,
        user: &User,
        application: &str,
    ) -> Result<(), StartError> {
        let applications = self.catalogue.current();
        let application = applications.named(application);
        let application = application.filter(|of| of.is_for(&user.name));
        let application = application.ok_or(StartError::NoApplication)?;
        let _turn = self.starts.lock().await;
        if !self.is_listed.load(Ordering::Relaxed) {
            self.list_existing().await?;
        }
        if let Some(known) = self.registry.of(session) {
            return match known.observed.user == user.name {
                true => Ok(()),
                false => Err(StartError::NotYours),
            };
        }
        if self.store.is_draining().await? {
            return Err(StartError::Draining);
        }
        let own = self.registry.of_user(&user.name);
        let active = own.iter().filter(|of| !of.observed.phase.is_final());
        let most = user.sessions.unwrap_or(self.limits.sessions);
        if active.count() as u64 >= u64::from(most) {
            return Err(StartError::TooMany(most));
        }
        // A lost session may still write to the saves.
        let writes = |of: &&SessionState| !matches!(of.observed.phase, Phase::Ended { .. });
        let same = |of: &&SessionState| of.observed.application == application.name;
        if application.saves && own.iter().filter(writes).any(|of| same(&of)) {
            return Err(StartError::Twice(application.title.clone()));
        }
        let noted = self
            .store
            .note_launch(session, &user.name, &application.name);
        match noted.await? {
            LaunchOwner::Own => {}
            LaunchOwner::Over => return Err(StartError::Over),
            LaunchOwner::Others => return Err(StartError::NotYours),
        }
        let spec = self.spec(session, user, application);
        // The registry makes the session visible to the user and detects duplicates from now on.
        self.registry.add(queued(&spec), Instant::now());
        if let Err(why) = self.launcher.launch(&spec).await {
            warn!(%session, user = user.name, application = application.name, "cannot launch: {why}");
            // An engine that does not respond may nevertheless have accepted the session. Therefore, the session is not
            // recorded as ended, and the user may repeat the request with the same id.
            if !matches!(why, LaunchError::Unavailable(_)) {
                let _ = self
                    .store
                    .note_end(session, None, None, &why.to_string())
                    .await;
            }
            self.registry.forget(session);
            return Err(why.into());
        }
        info!(%session, user = user.name, application = application.name, "launched");
        Ok(())
    }

    fn spec(&self, session: SessionId, user: &User, application: &Application) -> LaunchSpec {
        let saves = application.saves.then(|| {
            let folder = self.saves.join(&user.name);
            folder.join(&application.name)
        });
        LaunchSpec {
            session,
            user: user.name.clone(),
            application: application.name.clone(),
            words: words::of(
                session,
                &user.name,
                application,
                &self.tickets.public(),
                saves.as_deref(),
                self.ice_file.as_deref(),
            ),
            environment: application.environment.clone(),
            gpus: application.gpus,
            millicores: application.millicores,
            memory: application.memory,
            zone: application.zone.clone(),
            max_duration: application.max_duration,
            writable_root: application.writable_root,
        }
    }

    pub(crate) async fn stop(&self, session: SessionId) -> Result<(), LaunchError> {
        let unreported = |of: SessionState| of.observed.engine_ref.is_empty();
        // Before the engine has accepted a session, a stop would have no effect. Taking the lock waits for the end of
        // the start.
        let _turn = match self.registry.of(session).is_some_and(unreported) {
            true => Some(self.starts.lock().await),
            false => None,
        };
        let was_final = |of: SessionState| of.observed.phase.is_final();
        let was_final = self.registry.of(session).is_some_and(was_final);
        self.launcher
            .stop(session, Duration::from_secs(self.limits.grace))
            .await?;
        match self.registry.of(session) {
            // The engine has already reported the end, which stays visible.
            Some(of) if !was_final && matches!(of.observed.phase, Phase::Ended { .. }) => {}
            Some(of) if of.observed.phase.is_final() => self.registry.forget(session),
            Some(of) => self.end_missing(of.observed).await?,
            None => {}
        }
        Ok(())
    }

    /// Ends a stopped session that the engine does not have. The engine reports no end of such a session. Slurm's
    /// controller, for example, may lose a job that it has just accepted.
    async fn end_missing(&self, last: Observed) -> Result<(), LaunchError> {
        let listed = self.launcher.list().await?;
        if !listed.iter().any(|of| of.session == last.session) {
            let why = match last.engine_ref.is_empty() {
                true => "stopped before it started",
                false => "stopped",
            };
            let phase = Phase::Ended {
                code: None,
                why: why.to_owned(),
            };
            self.observe(Observed { phase, ..last }).await;
        }
        Ok(())
    }

    /// Ends all sessions of a user. Called when the user may no longer have sessions.
    pub(crate) async fn stop_all_of(&self, user: &str) {
        for state in self.registry.of_user(user) {
            let session = state.observed.session;
            if !state.observed.phase.is_final()
                && let Err(why) = self.stop(session).await
            {
                warn!(%session, user, "cannot stop: {why}");
            }
        }
    }

    /// Ends all sessions. Returns when all sessions have ended, when the engine does not respond, or after twice the
    /// grace period.
    pub(crate) async fn end_all(&self) {
        let grace = Duration::from_secs(self.limits.grace);
        let until = Instant::now() + 2 * grace;
        while let Ok(listed) = self.launcher.list().await {
            if listed.is_empty() || Instant::now() > until {
                return;
            }
            for observed in listed {
                let _ = self.launcher.stop(observed.session, grace).await;
            }
            time::sleep(END_POLL_INTERVAL).await;
        }
    }

    /// The end of a session's log, for its owner and for operators. `None` if the session does not exist or belongs to
    /// another user. The text is empty if no log is kept.
    pub(crate) async fn log(
        &self,
        session: SessionId,
        user: &User,
    ) -> Result<Option<String>, StartError> {
        let Some((owner, kept)) = self.store.log(session).await? else {
            return Ok(None);
        };
        if owner != user.name && !user.operator {
            return Ok(None);
        }
        let log = match kept {
            Some(kept) => Some(kept),
            None => self.launcher.log(session).await?,
        };
        Ok(Some(log.unwrap_or_default()))
    }

    /// Stores the end of a session's log. Called before the engine forgets the session.
    fn keep_log(&self, session: SessionId) -> impl Future<Output = ()> + Send + use<> {
        let (launcher, store) = (Arc::clone(&self.launcher), self.store.clone());
        async move {
            match launcher.log(session).await {
                Ok(Some(log)) if !log.is_empty() => {
                    if let Err(why) = store.note_log(session, &log).await {
                        warn!(%session, "cannot store the log: {why}");
                    }
                }
                Ok(_) => {}
                Err(why) => warn!(%session, "cannot store the log: {why}"),
            }
        }
    }

    /// Sets whether all users may watch a session.
    pub(crate) async fn share(&self, session: SessionId, shared: bool) -> Result<(), StoreError> {
        self.store.share(session, shared).await?;
        self.registry.share(session, shared);
        Ok(())
    }

    /// The session; `None` if this user may not see it.
    pub(crate) fn visible(&self, session: SessionId, user: &User) -> Option<SessionState> {
        let state = self.registry.of(session)?;
        let own = state.observed.user == user.name;
        (own || user.operator || state.shared).then_some(state)
    }

    /// The sessions of this user, and the sessions that other users share.
    pub(crate) fn of(&self, user: &User) -> Vec<SessionState> {
        self.registry.visible_to(&user.name)
    }

    pub(crate) fn all(&self) -> Vec<SessionState> {
        self.registry.all()
    }

    /// A counter that increases with each change of a session.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes()
    }

    /// Why the engine does not respond; `None` if it responds.
    pub(crate) fn engine_trouble(&self) -> Option<String> {
        self.registry.trouble()
    }

    pub(crate) async fn servers(&self) -> Result<Vec<Server>, LaunchError> {
        self.launcher.servers().await
    }

    pub(crate) fn launcher_name(&self) -> &'static str {
        self.launcher.name()
    }

    /// Follows the launcher's changes, enforces timeouts and renews leases, for as long as the portal runs.
    pub(crate) async fn follow(self: Arc<Self>) {
        // The three tasks run concurrently. Renewals must not wait for the engine, because a session without a client
        // ends if its lease is not renewed. Changes must not wait for a server that does not respond.
        tokio::select! {
            () = self.follow_changes() => {}
            () = self.check_timeouts() => {}
            () = self.renew_leases() => {}
        }
    }

    async fn follow_changes(&self) {
        let mut changes = self.launcher.watch();
        while let Some(change) = changes.next().await {
            match change {
                Ok(observed) => {
                    self.registry.set_trouble(None);
                    self.observe(observed).await;
                }
                Err(why) => {
                    warn!("the engine does not respond: {why}");
                    self.registry.set_trouble(Some(why.to_string()));
                }
            }
        }
        error!("the launcher stopped reporting changes; restart the portal");
    }

    async fn check_timeouts(&self) {
        let mut look = time::interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            self.enforce_limits().await;
        }
    }

    async fn renew_leases(self: &Arc<Self>) {
        let mut renew = time::interval(RENEW_INTERVAL);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            renew.tick().await;
            self.renew();
        }
    }

    /// Adds the engine's sessions to the registry, and marks sessions in the history as ended if the engine no longer
    /// has them. Must run before the server accepts requests; otherwise, a session that is launched meanwhile could be
    /// mistaken for a missing one. If the engine does not respond, the next start tries again.
    pub(crate) async fn find_ended(&self) {
        if let Err(why) = self.list_existing().await {
            warn!("the engine does not respond: {why}");
            self.registry.set_trouble(Some(why.to_string()));
        }
    }

    /// Like [`find_ended`](Self::find_ended), for a caller that prevents launches.
    async fn list_existing(&self) -> Result<(), LaunchError> {
        let listed = self.launcher.list().await?;
        for observed in &listed {
            // If the engine has reported a state meanwhile, the registry keeps that newer state.
            self.registry.add(observed.clone(), Instant::now());
        }
        self.is_listed.store(true, Ordering::Relaxed);
        let unfinished = match self.store.unfinished().await {
            Ok(unfinished) => unfinished,
            Err(why) => {
                warn!("cannot record the sessions that ended while the portal was stopped: {why}");
                return Ok(());
            }
        };
        for past in unfinished {
            let Ok(session) = past.session.parse() else {
                continue;
            };
            if listed.iter().any(|of| of.session == session) {
                self.registry.share(session, past.shared);
            } else {
                let why = "not running when the portal started";
                let _ = self.store.note_end(session, None, None, why).await;
            }
        }
        Ok(())
    }

    async fn observe(&self, observed: Observed) {
        let (session, phase) = (observed.session, observed.phase.clone());
        let has_account = match self.store.user(&observed.user).await {
            Ok(user) => user.is_some(),
            // A database failure does not end the session.
            Err(why) => {
                warn!(%session, "cannot look up the session's account: {why}");
                true
            }
        };
        if !has_account && !phase.is_final() {
            warn!(%session, user = observed.user, "stopping a session whose account does not exist");
            let grace = Duration::from_secs(self.limits.grace);
            let _ = self.launcher.stop(session, grace).await;
            return;
        }
        let server = observed.server.clone();
        match phase {
            Phase::Ended { .. } => self.keep_log(session).await,
            // The session's server may not respond, and the states of other sessions must not wait for it.
            Phase::Lost { .. } => drop(tokio::spawn(self.keep_log(session))),
            _ => {}
        }
        self.registry.apply(observed, Instant::now());
        let (code, why) = match phase {
            Phase::Ended { code, why } => (code, why),
            Phase::Lost { .. } => (
                None,
                "its server does not respond, or its program has disappeared".to_owned(),
            ),
            _ => return,
        };
        if let Err(failed) = self
            .store
            .note_end(session, server.as_deref(), code, &why)
            .await
        {
            // The launcher keeps the session and reports it again after a restart of the portal.
            warn!(%session, "cannot record the session's end: {failed}");
            return;
        }
        match self.registry.of(session).map(|of| of.observed.phase) {
            Some(Phase::Ended { .. }) => {
                // The session's end has been recorded, so the engine may forget the session.
                let _ = self.launcher.stop(session, Duration::ZERO).await;
            }
            Some(Phase::Lost { .. }) if !has_account => {
                // The user can no longer remove the session.
                let _ = self.launcher.stop(session, Duration::ZERO).await;
                self.registry.forget(session);
            }
            _ => {}
        }
    }

    async fn enforce_limits(&self) {
        for state in self.registry.all() {
            let session = state.observed.session;
            // The session may have changed while the engine stopped another session in this loop.
            let Some(state) = self.registry.of(session) else {
                continue;
            };
            let since = state.since.elapsed();
            let limit = |seconds| since > Duration::from_secs(seconds);
            match state.observed.phase {
                Phase::Starting if limit(self.limits.start) && !state.stopping => {
                    let why = format!("did not start within {} s", self.limits.start);
                    self.give_up(&state, &why).await;
                }
                Phase::Queued { .. } if limit(self.limits.queue) && !state.stopping => {
                    let why = format!("no capacity within {} s", self.limits.queue);
                    self.give_up(&state, &why).await;
                }
                Phase::Ended { .. } if since > ENDED_VISIBLE => self.registry.forget(session),
                _ => {}
            }
        }
    }

    async fn give_up(&self, state: &SessionState, why: &str) {
        let session = state.observed.session;
        self.registry.stopping(session, why);
        self.keep_log(session).await;
        let _ = self
            .store
            .note_end(session, state.observed.server.as_deref(), None, why)
            .await;
        match self.stop(session).await {
            Ok(()) => warn!(%session, "stopped: {why}"),
            Err(failed) => {
                warn!(%session, "cannot stop the session, trying again: {failed}");
                self.registry.not_stopping(session);
            }
        }
    }

    /// Renews the leases of running sessions, and updates their subscriber statistics.
    fn renew(self: &Arc<Self>) {
        for state in self.registry.all() {
            if let Phase::Running { endpoint } = &state.observed.phase {
                let (sessions, endpoint) = (Arc::clone(self), endpoint.clone());
                let (session, user) = (state.observed.session, state.observed.user.clone());
                tokio::spawn(async move { sessions.renew_of(session, &user, &endpoint).await });
            }
        }
    }

    /// Renews a session's lease. Stops the session instead if its account is missing or disabled. This can be the case
    /// if another program has changed the account, or if the engine did not respond when the portal changed the
    /// account.
    async fn renew_of(&self, session: SessionId, user: &str, endpoint: &Endpoint) {
        if let Ok(None) = self.store.user(user).await {
            warn!(%session, user, "stopping a session whose account does not exist");
            if let Err(why) = self.stop(session).await {
                warn!(%session, user, "cannot stop: {why}");
            }
            return;
        }
        match self.tickets.renew(session, endpoint).await {
            Ok(figures) => self.registry.set_figures(session, figures),
            Err(why) => warn!(%session, "cannot renew the session's lease: {why}"),
        }
    }
}

/// The state of a requested session before the engine reports one.
fn queued(spec: &LaunchSpec) -> Observed {
    Observed {
        session: spec.session,
        user: spec.user.clone(),
        application: spec.application.clone(),
        phase: Phase::Queued {
            why: "just requested".to_owned(),
        },
        server: None,
        engine_ref: String::new(),
        launched: Some(SystemTime::now()),
    }
}

#[cfg(test)]
mod tests;
