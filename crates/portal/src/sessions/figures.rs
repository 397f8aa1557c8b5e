//! Subscriber statistics of a running session: frame rate and latency.
//!
//! Each response to a lease renewal contains the statistics. The session's program runs the user's application, so the
//! response is untrusted: implausible values count as unknown, and only a small amount of data is stored.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SubscriberKind;
use openuvr_proto::host::figures::{GroupFigures, LatencyFigures, SubscriberFigures, grouped};
use serde::Deserialize;

/// How long statistics stay valid: three renewal intervals. One renewal may be late, and one may fail.
const VALIDITY: Duration = Duration::from_secs(30);

/// Maximum plausible frame rate in frames/s; a guess: no display is that fast.
const MOST_FRAMES: f64 = 1000.0;

/// Maximum plausible latency; a guess: nothing is playable with such a latency.
const MAX_LATENCY: Duration = Duration::from_secs(60);

/// Statistics of a session. There are at most ten groups: five kinds of subscribers with two roles. Clones of this
/// value share the data.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Figures {
    groups: Arc<[GroupFigures]>,
    told: Instant,
}

/// The part of the response that the portal parses. Module `control` of `openuvr_gateway` documents the whole response.
#[derive(Deserialize)]
struct Answer {
    /// Missing in responses of older sessions; null if the session's host does not answer.
    subscribers: Option<Vec<SubscriberJson>>,
}

#[derive(Deserialize)]
struct SubscriberJson {
    kind: String,
    role: String,
    frames_per_second: Option<f64>,
    latency_p50: Option<f64>,
    latency_p99: Option<f64>,
    latency_bound: Option<f64>,
}

impl Figures {
    /// Parses a response that arrived at `now`; `None` if the response contains no statistics.
    pub(super) fn read(now: Instant, answer: &[u8]) -> Option<Figures> {
        let answer: Answer = serde_json::from_slice(answer).ok()?;
        let told = answer.subscribers?;
        let all: Vec<SubscriberFigures> = told.iter().filter_map(SubscriberJson::read).collect();
        Some(Figures {
            groups: grouped(&all).into(),
            told: now,
        })
    }

    /// Statistics by kind and role, players first; `None` if the statistics are outdated.
    pub(crate) fn groups(&self, now: Instant) -> Option<&[GroupFigures]> {
        let age = now.saturating_duration_since(self.told);
        (age < VALIDITY).then_some(&self.groups)
    }
}

impl SubscriberJson {
    fn read(&self) -> Option<SubscriberFigures> {
        let kinds = SubscriberKind::ALL;
        let kind = kinds.into_iter().find(|kind| kind.name() == self.kind);
        let roles = [Role::Player, Role::Observer];
        let role = roles.into_iter().find(|role| role.name() == self.role)?;
        let believed = |rate: &f64| (0.0..=MOST_FRAMES).contains(rate);
        Some(SubscriberFigures {
            // A newer session may report kinds that this portal does not know.
            kind: kind.unwrap_or(SubscriberKind::Other),
            role,
            frames_per_second: self.frames_per_second.filter(believed),
            latency: self.latency(),
            // Sessions do not report the share of datagrams with CE marks.
            ce_share: None,
        })
    }

    fn latency(&self) -> Option<LatencyFigures> {
        let latency = LatencyFigures {
            p50: span(self.latency_p50)?,
            p99: span(self.latency_p99)?,
            bound: span(self.latency_bound)?,
        };
        (latency.p50 <= latency.p99).then_some(latency)
    }
}

/// Converts seconds to a duration; `None` if the value is implausible.
fn span(seconds: Option<f64>) -> Option<Duration> {
    let span = Duration::try_from_secs_f64(seconds?).ok()?;
    (span <= MAX_LATENCY).then_some(span)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn groups(answer: &str) -> Option<Vec<GroupFigures>> {
        let now = Instant::now();
        let figures = Figures::read(now, answer.as_bytes())?;
        figures.groups(now).map(<[_]>::to_vec)
    }

    fn one(change: impl FnOnce(&mut Value)) -> Option<GroupFigures> {
        let mut one = json!({
            "kind": "browser", "role": "player", "frames_per_second": 59.8,
            "latency_p50": 0.0071, "latency_p99": 0.0152, "latency_bound": 0.0003,
        });
        change(&mut one);
        let answer = json!({"session": "x", "connected": 1, "subscribers": [one]});
        groups(&answer.to_string()).unwrap().first().copied()
    }

    #[test]
    fn statistics_expire() {
        let known = one(|_| ()).unwrap();
        assert_eq!(
            (known.kind, known.role),
            (SubscriberKind::Browser, Role::Player)
        );
        assert_eq!((known.count, known.frames_per_second), (1, Some(59.8)));
        let latency = known.latency.unwrap();
        assert_eq!(latency.p99, Duration::from_micros(15_200));
        assert_eq!(latency.bound, Duration::from_micros(300));
        let now = Instant::now();
        let figures = Figures::read(now, br#"{"subscribers":[]}"#).unwrap();
        assert_eq!(figures.groups(now), Some(&[][..]));
        assert_eq!(figures.groups(now + VALIDITY), None);
    }

    #[test]
    fn a_response_without_statistics_is_none() {
        for answer in [
            "",
            "renewed",
            "{}",
            "[]",
            r#"{"session":"x","connected":1}"#,
            r#"{"subscribers":null}"#,
            r#"{"subscribers":7}"#,
            r#"{"subscribers":[7]}"#,
            r#"{"subscribers":[{"kind":"browser"}]}"#,
            r#"{"subscribers":[{"kind":"browser","role":"player","frames_per_second":1e999}]}"#,
            r#"{"subscribers":[{"kind":"browser","role":"player","frames_per_second":NaN}]}"#,
        ] {
            assert_eq!(groups(answer), None, "{answer}");
        }
    }

    #[test]
    fn implausible_values_are_unknown() {
        for rate in [-0.1, 1000.1, 1e300] {
            let known = one(|of| of["frames_per_second"] = rate.into()).unwrap();
            assert_eq!(known.frames_per_second, None, "{rate}");
            assert!(known.latency.is_some());
        }
        for (name, seconds) in [
            ("latency_p50", -1.0),
            ("latency_p50", 0.0153),
            ("latency_p99", 61.0),
            ("latency_p99", 1e300),
            ("latency_bound", -1e-9),
        ] {
            let known = one(|of| of[name] = seconds.into()).unwrap();
            assert_eq!(known.latency, None, "{name} {seconds}");
            assert!(known.frames_per_second.is_some());
        }
        let known = one(|of| of["kind"] = "hologram".into()).unwrap();
        assert_eq!(known.kind, SubscriberKind::Other);
        assert_eq!(one(|of| of["role"] = "emperor".into()), None);
    }

    #[test]
    fn many_subscribers_are_grouped() {
        let one = r#"{"kind":"x","role":"player"}"#;
        let many = vec![one; 2000].join(",");
        let groups = groups(&format!(r#"{{"subscribers":[{many}]}}"#)).unwrap();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].count, 2000);
    }
}
