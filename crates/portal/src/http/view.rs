//! Sessions as the interface shows them.

use std::time::{Duration, Instant, SystemTime};

use openuvr_proto::host::figures::{GroupFigures, LatencyFigures};
use serde::Serialize;
use utoipa::ToSchema;

use crate::catalogue::Applications;
use crate::launch::Phase;
use crate::sessions::SessionState;
use crate::store::{PastSession, User, seconds};

/// How a session does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// It waits for a place.
    Queued,
    /// It has one, and does not run yet.
    Starting,
    /// It can be played.
    Running,
    /// It is over.
    Ended,
    /// Nobody knows: its server does not answer. A new one can be started.
    Lost,
}

/// A session.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SessionView {
    /// A UUID.
    id: String,
    application: String,
    /// For people.
    title: String,
    /// Whose it is.
    user: String,
    /// Whether it is the caller's own.
    own: bool,
    state: State,
    /// What it waits for, or why it ended.
    why: Option<String>,
    /// The exit code of its program, once it has ended and where it is known.
    code: Option<i32>,
    /// Where it runs.
    server: Option<String>,
    /// What the engine calls it; for operators.
    engine_ref: Option<String>,
    /// When it was launched, in seconds since 1970.
    launched: Option<i64>,
    /// Whether everybody who may log in may watch it.
    shared: bool,
}

impl SessionView {
    pub(crate) fn of(seen: &SessionState, applications: &Applications, to: &User) -> SessionView {
        let observed = &seen.observed;
        let application = applications.named(&observed.application);
        let title = application.map_or(&observed.application, |of| &of.title);
        let (state, why, code) = match &observed.phase {
            Phase::Queued { why } => (State::Queued, Some(why.clone()), None),
            Phase::Starting => (State::Starting, None, None),
            Phase::Running { .. } => (State::Running, None, None),
            Phase::Ended { code, why } => (State::Ended, Some(why.clone()), *code),
            Phase::Lost { since } => (State::Lost, Some(lost(*since)), None),
        };
        SessionView {
            id: observed.session.to_string(),
            application: observed.application.clone(),
            title: title.clone(),
            user: observed.user.clone(),
            own: observed.user == to.name,
            state,
            why,
            code,
            server: observed.server.clone(),
            engine_ref: to.operator.then(|| observed.engine_ref.clone()),
            launched: observed.launched.map(seconds),
            shared: seen.shared,
        }
    }
}

/// A session as operators see it.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct OperatorSessionView {
    #[serde(flatten)]
    session: SessionView,
    /// Who is connected, players first; none: it does not run, or has not said it lately. A session is asked each
    /// ten seconds.
    subscribers: Option<Vec<SubscribersView>>,
}

/// Those who are connected to a session of one kind and role, and how it is for them over five seconds.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SubscribersView {
    /// `client`, `browser`, `video player`, `recorder` or `other`.
    kind: &'static str,
    /// `player` or `observer`.
    role: &'static str,
    /// How many they are.
    count: usize,
    /// Frames displayed whole, a second, where they are fewest; none: nobody reports that.
    frames_per_second: Option<f64>,
    /// From capture to the last stage that a client reports, in seconds, where it is longest: half of the frames took
    /// no longer …
    latency_p50: Option<f64>,
    /// … and 99 of 100 took no longer.
    latency_p99: Option<f64>,
    /// By how much these may be off, in seconds: two clocks are compared.
    latency_bound: Option<f64>,
}

impl OperatorSessionView {
    pub(crate) fn of(
        seen: &SessionState,
        applications: &Applications,
        to: &User,
        now: Instant,
    ) -> OperatorSessionView {
        let groups = seen.figures.as_ref().and_then(|of| of.groups(now));
        OperatorSessionView {
            session: SessionView::of(seen, applications, to),
            subscribers: groups.map(|all| all.iter().map(SubscribersView::of).collect()),
        }
    }
}

impl SubscribersView {
    fn of(group: &GroupFigures) -> SubscribersView {
        let seconds = |which: fn(&LatencyFigures) -> Duration| {
            let latency = group.latency.as_ref();
            latency.map(|of| which(of).as_secs_f64())
        };
        SubscribersView {
            kind: group.kind.name(),
            role: group.role.name(),
            count: group.count,
            frames_per_second: group.frames_per_second,
            latency_p50: seconds(|of| of.p50),
            latency_p99: seconds(|of| of.p99),
            latency_bound: seconds(|of| of.bound),
        }
    }
}

fn lost(since: SystemTime) -> String {
    let ago = SystemTime::now().duration_since(since).unwrap_or_default();
    let minutes = ago.as_secs() / 60;
    match minutes {
        0 => "its server does not answer, or its program was gone".to_owned(),
        _ => format!("since {minutes} min its server does not answer, or its program was gone"),
    }
}

/// A session that there was.
#[derive(Serialize, ToSchema)]
pub(crate) struct PastView {
    /// A UUID.
    id: String,
    application: String,
    /// For people.
    title: String,
    /// When it was asked for, in seconds since 1970.
    launched: i64,
    /// When it ended; none: it has not.
    ended: Option<i64>,
    server: Option<String>,
    code: Option<i64>,
    why: Option<String>,
}

impl PastView {
    pub(crate) fn of(past: PastSession, applications: &Applications) -> PastView {
        let application = applications.named(&past.application);
        PastView {
            title: application.map_or_else(|| past.application.clone(), |of| of.title.clone()),
            id: past.session,
            application: past.application,
            launched: past.launched,
            ended: past.ended,
            server: past.server,
            code: past.code,
            why: past.why,
        }
    }
}
