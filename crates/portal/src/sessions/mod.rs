//! The sessions as people see them: what the engine says, with whose they are, and what people may ask.
//!
//! It keeps no truth of its own. What is in memory comes from the launcher and is made anew from it after a start;
//! the database adds who shares what, and what there was.

mod control;
mod figures;
mod link;
mod registry;
mod signalling;
mod words;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{self, MissedTickBehavior};
use tracing::{error, info, warn};

pub(crate) use self::control::Tickets;
use self::registry::Registry;
pub(crate) use self::registry::SessionState;
pub(crate) use self::signalling::{Visitor, wishes};
use crate::catalogue::{Application, Catalogue};
use crate::config::Limits;
use crate::launch::{LaunchError, LaunchSpec, Launcher, Observed, Phase, Server, SessionId};
use crate::store::{LaunchOwner, Store, StoreError, User};

/// How often it is looked at what takes too long.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often a running session's lease is renewed: a third of what a session waits for it by default.
const RENEW: Duration = Duration::from_secs(10);

/// How often it is looked whether all have ended.
const END: Duration = Duration::from_millis(50);

/// How long an ended session is still shown, for the person who looks at it.
const SHOWN: Duration = Duration::from_secs(120);

/// Why a person does not get a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// There is no such application, or not for this person.
    #[error("there is no such application")]
    NoApplication,
    /// The person has as many as allowed.
    #[error("you have {0} already, which is as many as you may: stop one first")]
    TooMany(u32),
    /// One application with saves at a time.
    #[error(
        "you play {0} already, or it is not known how your last session of it ended: stop that one first, so that no two write your saves"
    )]
    Twice(String),
    /// An operator lets the portal run empty.
    #[error(
        "no new sessions are started at present: the operator prepares maintenance. What runs goes on"
    )]
    Draining,
    /// The id is another's.
    #[error("there is no such session")]
    NotYours,
    /// A session of this id is over, or never began.
    #[error("that session is over: start a new one")]
    Over,
    /// The engine did not take it.
    #[error("{0}")]
    Launch(#[from] LaunchError),
    /// The database failed.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// All that is known of sessions. One for the whole portal.
pub(crate) struct Sessions {
    launcher: Arc<dyn Launcher>,
    store: Store,
    catalogue: Arc<Catalogue>,
    tickets: Arc<Tickets>,
    limits: Limits,
    saves: std::path::PathBuf,
    ice_file: Option<std::path::PathBuf>,
    registry: Registry,
    /// Starts of one portal come one after the other: of two at once both would find room under the limit.
    starts: tokio::sync::Mutex<()>,
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
        }
    }

    /// Starts an application for a person. Idempotent on `session`, which the person's browser chose.
    pub(crate) async fn start(
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
        // Of a lost one nobody knows whether it still writes.
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
        // The person sees it from now on, and nobody can ask twice.
        self.registry.add(queued(&spec), Instant::now());
        if let Err(why) = self.launcher.launch(&spec).await {
            warn!(%session, user = user.name, application = application.name, "not launched: {why}");
            // An engine that does not answer may have taken it all the same: the person may ask again for the
            // same session.
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
        }
    }

    /// Ends a session.
    pub(crate) async fn stop(&self, session: SessionId) -> Result<(), LaunchError> {
        self.launcher
            .stop(session, Duration::from_secs(self.limits.grace))
            .await?;
        if self
            .registry
            .of(session)
            .is_some_and(|of| of.observed.phase.is_final())
        {
            self.registry.forget(session);
        }
        Ok(())
    }

    /// Ends those of a person who may have none any more.
    pub(crate) async fn stop_all_of(&self, user: &str) {
        for seen in self.registry.of_user(user) {
            let session = seen.observed.session;
            if !seen.observed.phase.is_final()
                && let Err(why) = self.stop(session).await
            {
                warn!(%session, user, "not stopped: {why}");
            }
        }
    }

    /// Ends all, and waits until they have ended, or until they have had their time.
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
            time::sleep(END).await;
        }
    }

    /// The end of a session's log, for its owner and for operators. `None`: there is no such session, or it is another's.
    /// The text is empty where no log is kept.
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

    /// Keeps the end of a session's log, before its engine forgets it.
    async fn keep_log(&self, session: SessionId) {
        match self.launcher.log(session).await {
            Ok(Some(log)) if !log.is_empty() => {
                if let Err(why) = self.store.note_log(session, &log).await {
                    warn!(%session, "log not kept: {why}");
                }
            }
            Ok(_) => {}
            Err(why) => warn!(%session, "log not kept: {why}"),
        }
    }

    /// Lets everybody who may log in watch it, or no more.
    pub(crate) async fn share(&self, session: SessionId, shared: bool) -> Result<(), StoreError> {
        self.store.share(session, shared).await?;
        self.registry.share(session, shared);
        Ok(())
    }

    /// The session, if this person may know of it.
    pub(crate) fn visible(&self, session: SessionId, user: &User) -> Option<SessionState> {
        let seen = self.registry.of(session)?;
        let own = seen.observed.user == user.name;
        (own || user.operator || seen.shared).then_some(seen)
    }

    /// Those of this person, and those that others share.
    pub(crate) fn of(&self, user: &User) -> Vec<SessionState> {
        self.registry.visible_to(&user.name)
    }

    /// All.
    pub(crate) fn all(&self) -> Vec<SessionState> {
        self.registry.all()
    }

    /// Counts up whenever something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes()
    }

    /// Why the engine does not answer, if so.
    pub(crate) fn engine_trouble(&self) -> Option<String> {
        self.registry.trouble()
    }

    pub(crate) async fn servers(&self) -> Result<Vec<Server>, LaunchError> {
        self.launcher.servers().await
    }

    pub(crate) fn launcher_name(&self) -> &'static str {
        self.launcher.name()
    }

    /// Hears of what becomes of sessions, and ends what takes too long; for as long as the portal runs.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut changes = self.launcher.watch();
        let mut look = time::interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renew = time::interval(RENEW);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(observed)) => {
                        self.registry.set_trouble(None);
                        self.observe(observed).await;
                    }
                    Some(Err(why)) => {
                        warn!("the engine does not answer: {why}");
                        self.registry.set_trouble(Some(why.to_string()));
                    }
                    None => {
                        error!("the launcher tells no more; restart the portal");
                        return;
                    }
                },
                _ = look.tick() => self.enforce_limits().await,
                _ = renew.tick() => self.renew(),
            }
        }
    }

    /// Of what was launched once, and is unknown to the engine now, nobody will tell how it ended. Before anybody
    /// is answered: what is launched meanwhile would be taken for gone.
    pub(crate) async fn find_ended(&self) {
        let listed = match self.launcher.list().await {
            Ok(listed) => listed,
            Err(why) => {
                warn!("the engine does not answer: {why}");
                self.registry.set_trouble(Some(why.to_string()));
                return;
            }
        };
        let unfinished = match self.store.unfinished().await {
            Ok(unfinished) => unfinished,
            Err(why) => {
                warn!("what ended meanwhile is not noted: {why}");
                return;
            }
        };
        for past in unfinished {
            let Ok(session) = past.session.parse() else {
                continue;
            };
            if listed.iter().any(|of| of.session == session) {
                self.registry.share(session, past.shared);
            } else {
                let why = "it was gone when the portal started";
                let _ = self.store.note_end(session, None, None, why).await;
            }
        }
    }

    async fn observe(&self, observed: Observed) {
        let (session, phase) = (observed.session, observed.phase.clone());
        match self.store.user(&observed.user).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                warn!(%session, user = observed.user, "stopped: there is no such account");
                let _ = self.launcher.stop(session, Duration::ZERO).await;
                return;
            }
            // Nothing follows from a database that does not answer.
            Err(why) => warn!(%session, "whose it is can't be looked up: {why}"),
        }
        let server = observed.server.clone();
        if phase.is_final() {
            self.keep_log(session).await;
        }
        self.registry.apply(observed, Instant::now());
        let (code, why) = match phase {
            Phase::Ended { code, why } => (code, why),
            Phase::Lost { .. } => (
                None,
                "its server does not answer, or its program was gone".to_owned(),
            ),
            _ => return,
        };
        if let Err(failed) = self
            .store
            .note_end(session, server.as_deref(), code, &why)
            .await
        {
            // Kept by the launcher, it is told again after a restart.
            warn!(%session, "its end is not noted: {failed}");
            return;
        }
        if let Phase::Ended { .. } = self
            .registry
            .of(session)
            .map_or(Phase::Starting, |of| of.observed.phase)
        {
            // Noted, so the engine may forget it.
            let _ = self.launcher.stop(session, Duration::ZERO).await;
        }
    }

    async fn enforce_limits(&self) {
        let now = Instant::now();
        for seen in self.registry.all() {
            let (session, since) = (seen.observed.session, now.duration_since(seen.since));
            let limit = |seconds| since > Duration::from_secs(seconds);
            match seen.observed.phase {
                Phase::Starting if limit(self.limits.start) && !seen.stopping => {
                    let why = format!("it did not run within {} s", self.limits.start);
                    self.give_up(&seen, &why).await;
                }
                Phase::Queued { .. } if limit(self.limits.queue) && !seen.stopping => {
                    let why = format!("there was no room within {} s", self.limits.queue);
                    self.give_up(&seen, &why).await;
                }
                Phase::Ended { .. } if since > SHOWN => self.registry.forget(session),
                _ => {}
            }
        }
    }

    async fn give_up(&self, seen: &SessionState, why: &str) {
        let session = seen.observed.session;
        warn!(%session, "stopped: {why}");
        self.registry.stopping(session, why);
        self.keep_log(session).await;
        let _ = self
            .store
            .note_end(session, seen.observed.server.as_deref(), None, why)
            .await;
        let grace = Duration::from_secs(self.limits.grace);
        if let Err(failed) = self.launcher.stop(session, grace).await {
            warn!(%session, "it can't be stopped: {failed}");
        }
    }

    /// Keeps running sessions alive, and hears what they say of their subscribers.
    fn renew(self: &Arc<Self>) {
        for seen in self.registry.all() {
            if let Phase::Running { endpoint } = &seen.observed.phase {
                let (sessions, endpoint) = (Arc::clone(self), endpoint.clone());
                let session = seen.observed.session;
                tokio::spawn(async move {
                    match sessions.tickets.renew(session, &endpoint).await {
                        Ok(figures) => sessions.registry.set_figures(session, figures),
                        Err(why) => warn!(%session, "its lease is not renewed: {why}"),
                    }
                });
            }
        }
    }
}

/// What is seen of a session that the engine has not told of yet.
fn queued(spec: &LaunchSpec) -> Observed {
    Observed {
        session: spec.session,
        user: spec.user.clone(),
        application: spec.application.clone(),
        phase: Phase::Queued {
            why: "it was just asked for".to_owned(),
        },
        server: None,
        engine_ref: String::new(),
        launched: Some(SystemTime::now()),
    }
}
