//! Tests with an engine that the test controls.

use std::fs;
use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use tokio::sync::Notify;

use super::*;
use crate::store::{Account, DatabaseLocation};

/// An engine with the sessions in `listed`.
#[derive(Default)]
struct Engine {
    listed: Mutex<Vec<Observed>>,
    /// Notified when a launch begins.
    launch_begun: Notify,
    /// A launch waits for this notification.
    may_launch: Notify,
    /// Notified when a launch has ended or has been cut off.
    launch_over: Notify,
    launched: AtomicBool,
    /// Whether the engine does not respond to stops and lists.
    silent: AtomicBool,
    /// Whether a read of a log does not end.
    log_hangs: AtomicBool,
    /// Notified when a read of a log begins.
    log_begun: Arc<Notify>,
    /// A session that the engine reports after a read of a log has begun.
    reported: Mutex<Option<Observed>>,
}

/// Notifies when it is dropped.
struct NotifyOnDrop<'a>(&'a Notify);

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[async_trait]
impl Launcher for Engine {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError> {
        let _over = NotifyOnDrop(&self.launch_over);
        self.launch_begun.notify_one();
        self.may_launch.notified().await;
        let accepted = observed(spec.session, Phase::Starting);
        self.listed.lock().unwrap().push(accepted);
        self.launched.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn stop(&self, session: SessionId, _: Duration) -> Result<(), LaunchError> {
        if self.silent.load(Ordering::Relaxed) {
            return Err(LaunchError::Unavailable("no response".to_owned()));
        }
        let mut listed = self.listed.lock().unwrap();
        listed.retain(|of| of.session != session);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Observed>, LaunchError> {
        if self.silent.load(Ordering::Relaxed) {
            return Err(LaunchError::Unavailable("no response".to_owned()));
        }
        Ok(self.listed.lock().unwrap().clone())
    }

    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>> {
        let (log_begun, reported) = (
            Arc::clone(&self.log_begun),
            self.reported.lock().unwrap().take(),
        );
        let change = async move {
            log_begun.notified().await;
            match reported {
                Some(observed) => Ok(observed),
                None => std::future::pending::<Result<Observed, LaunchError>>().await,
            }
        };
        Box::pin(stream::once(change).chain(stream::pending()))
    }

    async fn log(&self, _: SessionId) -> Result<Option<String>, LaunchError> {
        self.log_begun.notify_one();
        if self.log_hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(None)
    }

    async fn servers(&self) -> Result<Vec<Server>, LaunchError> {
        Ok(Vec::new())
    }
}

/// The sessions of a portal with one account and one application.
struct Rig {
    sessions: Arc<Sessions>,
    engine: Arc<Engine>,
    user: User,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new(limits: Limits) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("portal.sqlite");
        let store = Store::open(DatabaseLocation::File(&file)).await.unwrap();
        let user = User {
            name: "ada".to_owned(),
            password: String::new(),
            operator: false,
            sessions: None,
        };
        store.add_user(&user, None).await.unwrap();
        let applications = folder.path().join("applications.toml");
        let text = "[[application]]\nname = \"game\"\ncommand = [\"game\"]\n";
        fs::write(&applications, text).unwrap();
        let engine = Arc::new(Engine::default());
        let tickets = Tickets::open(&store).await.unwrap();
        let sessions = Sessions::new(
            engine.clone(),
            store,
            Arc::new(Catalogue::new(applications)),
            Arc::new(tickets),
            limits,
            folder.path().join("saves"),
            None,
        );
        Rig {
            sessions: Arc::new(sessions),
            engine,
            user,
            _folder: folder,
        }
    }
}

/// A session of the rig's user.
fn observed(session: SessionId, phase: Phase) -> Observed {
    Observed {
        session,
        user: "ada".to_owned(),
        application: "game".to_owned(),
        phase,
        server: None,
        engine_ref: "job 1".to_owned(),
        launched: None,
    }
}

#[tokio::test]
async fn a_start_continues_after_the_browser_has_disconnected() {
    let rig = Rig::new(Limits::default()).await;
    tokio::select! {
        _ = rig.sessions.start(SessionId::random(), &rig.user, "game") => {
            panic!("the engine has not launched the session yet");
        }
        () = rig.engine.launch_begun.notified() => {}
    }
    // The future of `start` has been dropped, as after a disconnection.
    rig.engine.may_launch.notify_one();
    rig.engine.launch_over.notified().await;
    assert!(rig.engine.launched.load(Ordering::Relaxed));
}

#[tokio::test]
async fn sessions_of_a_disabled_account_end_in_the_list() {
    let rig = Rig::new(Limits::default()).await;
    let (session, lost) = (SessionId::random(), SessionId::random());
    for session in [session, lost] {
        let noted = rig.sessions.store.note_launch(session, "ada", "game");
        noted.await.unwrap();
        let starting = observed(session, Phase::Starting);
        rig.sessions.observe(starting).await;
    }
    let account = Account {
        user: rig.user.clone(),
        disabled: true,
    };
    assert!(rig.sessions.store.set_account(&account).await.unwrap());
    let ended = Phase::Ended {
        code: None,
        why: "stopped".to_owned(),
    };
    rig.sessions.observe(observed(session, ended.clone())).await;
    let state = rig.sessions.registry.of(session).unwrap();
    assert_eq!(state.observed.phase, ended);
    // The user can no longer remove a lost session.
    let since = SystemTime::UNIX_EPOCH;
    let phase = Phase::Lost { since };
    rig.sessions.observe(observed(lost, phase)).await;
    assert_eq!(rig.sessions.registry.of(lost), None);
    let past = rig.sessions.store.history("ada", 2).await.unwrap();
    assert!(past.iter().all(|of| of.ended.is_some()), "{past:?}");
}

#[tokio::test]
async fn limits_count_the_sessions_of_an_earlier_portal() {
    let rig = Rig::new(Limits::default()).await;
    let running = observed(SessionId::random(), Phase::Starting);
    rig.engine.listed.lock().unwrap().push(running);
    rig.sessions.find_ended().await;
    // The engine has not reported a change yet.
    let again = rig.sessions.start(SessionId::random(), &rig.user, "game");
    assert!(matches!(again.await, Err(StartError::TooMany(1))));
}

#[tokio::test]
async fn limits_hold_if_the_engine_was_silent_at_first() {
    let rig = Rig::new(Limits::default()).await;
    let running = observed(SessionId::random(), Phase::Starting);
    rig.engine.listed.lock().unwrap().push(running);
    // No launch in this test waits for the test.
    rig.engine.may_launch.notify_one();
    rig.engine.silent.store(true, Ordering::Relaxed);
    rig.sessions.find_ended().await;
    let start = || rig.sessions.start(SessionId::random(), &rig.user, "game");
    let unknown = start().await;
    assert!(matches!(
        unknown,
        Err(StartError::Launch(LaunchError::Unavailable(_)))
    ));
    rig.engine.silent.store(false, Ordering::Relaxed);
    assert!(matches!(start().await, Err(StartError::TooMany(1))));
}

#[tokio::test]
async fn a_session_that_the_engine_has_lost_can_be_stopped() {
    let rig = Rig::new(Limits::default()).await;
    let session = SessionId::random();
    rig.engine.may_launch.notify_one();
    let started = rig.sessions.start(session, &rig.user, "game");
    started.await.unwrap();
    rig.engine.listed.lock().unwrap().clear();
    rig.sessions.stop(session).await.unwrap();
    let state = rig.sessions.registry.of(session).unwrap();
    assert!(matches!(state.observed.phase, Phase::Ended { .. }));
    let past = rig.sessions.store.history("ada", 1).await.unwrap();
    assert_eq!(past[0].why.as_deref(), Some("stopped before it started"));
}

#[tokio::test]
async fn a_session_that_does_not_start_is_stopped_in_the_end() {
    let limits = Limits {
        start: 0,
        ..Limits::default()
    };
    let rig = Rig::new(limits).await;
    let starting = observed(SessionId::random(), Phase::Starting);
    rig.engine.listed.lock().unwrap().push(starting.clone());
    rig.sessions.observe(starting).await;
    rig.engine.silent.store(true, Ordering::Relaxed);
    rig.sessions.enforce_limits().await;
    assert_eq!(rig.engine.listed.lock().unwrap().len(), 1);
    rig.engine.silent.store(false, Ordering::Relaxed);
    rig.sessions.enforce_limits().await;
    assert!(rig.engine.listed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_session_of_a_removed_account_is_stopped() {
    let rig = Rig::new(Limits::default()).await;
    let session = SessionId::random();
    let endpoint = Endpoint {
        web: "https://127.0.0.1:1".to_owned(),
        fingerprint: String::new(),
        native: None,
        key: None,
    };
    let phase = Phase::Running {
        endpoint: endpoint.clone(),
    };
    let running = observed(session, phase);
    rig.engine.listed.lock().unwrap().push(running.clone());
    rig.sessions.observe(running).await;
    rig.sessions.renew_of(session, "ada", &endpoint).await;
    assert_eq!(rig.engine.listed.lock().unwrap().len(), 1);
    // Another process removes the account: `openuvr portal user remove`.
    assert!(rig.sessions.store.remove_user("ada").await.unwrap());
    rig.sessions.renew_of(session, "ada", &endpoint).await;
    assert!(rig.engine.listed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_lost_session_does_not_delay_the_others() {
    let rig = Rig::new(Limits::default()).await;
    rig.engine.log_hangs.store(true, Ordering::Relaxed);
    let since = SystemTime::UNIX_EPOCH;
    let lost = observed(SessionId::random(), Phase::Lost { since });
    let session = lost.session;
    let seen = time::timeout(Duration::from_secs(60), rig.sessions.observe(lost));
    seen.await.expect("it does not wait for the log");
    assert!(rig.sessions.registry.of(session).is_some());
}

#[tokio::test]
async fn a_session_without_response_delays_no_changes() {
    let limits = Limits {
        start: 0,
        ..Limits::default()
    };
    let rig = Rig::new(limits).await;
    let late = observed(SessionId::random(), Phase::Starting);
    rig.sessions.observe(late).await;
    rig.engine.log_hangs.store(true, Ordering::Relaxed);
    let other = observed(SessionId::random(), Phase::Starting);
    *rig.engine.reported.lock().unwrap() = Some(other.clone());
    let mut changes = rig.sessions.changes();
    let is_seen = |_: &u64| rig.sessions.registry.of(other.session).is_some();
    let seen = time::timeout(Duration::from_secs(60), changes.wait_for(is_seen));
    tokio::select! {
        () = Arc::clone(&rig.sessions).follow() => panic!("the engine's changes have not ended"),
        seen = seen => drop(seen.expect("changes do not wait for the log").unwrap()),
    }
}

#[tokio::test]
async fn a_session_can_be_stopped_during_its_launch() {
    let rig = Rig::new(Limits::default()).await;
    let session = SessionId::random();
    let (sessions, user) = (Arc::clone(&rig.sessions), rig.user.clone());
    let started = tokio::spawn(async move { sessions.start(session, &user, "game").await });
    rig.engine.launch_begun.notified().await;
    let sessions = Arc::clone(&rig.sessions);
    let stopped = tokio::spawn(async move { sessions.stop(session).await });
    // The stop begins before the launch ends.
    tokio::task::yield_now().await;
    rig.engine.may_launch.notify_one();
    started.await.unwrap().unwrap();
    stopped.await.unwrap().unwrap();
    assert!(rig.engine.listed.lock().unwrap().is_empty());
}
