//! Sessions in the REST interface.

use std::time::{Duration, Instant, SystemTime};

use openuvr_proto::host::figures::{GroupFigures, LatencyFigures};
use serde::Serialize;
use utoipa::ToSchema;

use crate::catalogue::Applications;
use crate::launch::Phase;
use crate::sessions::SessionState;
use crate::store::{PastSession, User, seconds};

/// State of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// The session is waiting for capacity.
    Queued,
    /// The session has been assigned to a server, but is not running yet.
    Starting,
    /// The session can be played.
    Running,
    /// The session has ended.
    Ended,
    /// The session's state is unknown, because its server does not respond or its program has disappeared. The user can
    /// start a new session.
    Lost,
}

/// A session.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SessionView {
    /// A UUID.
    id: String,
    application: String,
    /// Display name of the application.
    title: String,
    /// The owner.
    user: String,
    /// Whether the caller owns the session.
    own: bool,
    state: State,
    /// Why the session is queued or lost, or why it ended.
    why: Option<String>,
    /// Exit code of the session's program, if the session has ended and the code is known.
    code: Option<i32>,
    /// The server that runs the session.
    server: Option<String>,
    /// The session's identifier in the engine; for operators only.
    engine_ref: Option<String>,
    /// Launch time in seconds since 1970.
    launched: Option<i64>,
    /// Whether all users may watch the session.
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
    /// The session's subscribers, players first; null if the session is not running, or if its last report is older
    /// than 30 s. The portal queries a session every ten seconds.
    subscribers: Option<Vec<SubscribersView>>,
}

/// The subscribers of one session with the same kind and role, and their statistics over five seconds.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SubscribersView {
    /// `client`, `browser`, `video player`, `recorder` or `other`.
    kind: &'static str,
    /// `player` or `observer`.
    role: &'static str,
    /// Number of subscribers.
    count: usize,
    /// Complete frames displayed per second: the lowest value in the group; null if not reported.
    frames_per_second: Option<f64>,
    /// Median latency in seconds from capture to the last stage that a client reports: the highest value in the group.
    latency_p50: Option<f64>,
    /// 99th percentile of the same latency: the highest value in the group.
    latency_p99: Option<f64>,
    /// Maximum error of the latency in seconds. The error exists because the latency compares two clocks.
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
        0 => "its server does not respond, or its program has disappeared".to_owned(),
        _ => format!(
            "its server has not responded for {minutes} min, or its program has disappeared"
        ),
    }
}

/// A past session.
#[derive(Serialize, ToSchema)]
pub(crate) struct PastView {
    /// A UUID.
    id: String,
    application: String,
    /// Display name of the application.
    title: String,
    /// Time of the request in seconds since 1970.
    launched: i64,
    /// Time of the session's end; null if the session has not ended.
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
