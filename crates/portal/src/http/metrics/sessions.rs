//! Statistics of the subscribers of running sessions, for Prometheus. Each sample belongs to a group: the subscribers
//! of one session with the same kind and role.

use std::time::{Duration, Instant};

use openuvr_proto::host::figures::{GroupFigures, LatencyFigures};

use super::write_family;
use crate::sessions::SessionState;

/// Labels in addition to those of the group, and a value.
type Sample = (&'static str, f64);

pub(super) fn write(out: &mut String, seen: &[SessionState], now: Instant) {
    let mut groups: Vec<(String, &GroupFigures)> = Vec::new();
    for of in seen {
        let known = of.figures.as_ref().and_then(|figures| figures.groups(now));
        for group in known.unwrap_or_default() {
            let labels = format!(
                "session=\"{}\",application={:?},kind=\"{}\",role=\"{}\"",
                of.observed.session,
                of.observed.application,
                group.kind.name(),
                group.role.name()
            );
            groups.push((labels, group));
        }
    }
    let mut family = |name: &str, help: &str, samples: fn(&GroupFigures) -> Vec<Sample>| {
        let all = groups.iter().flat_map(|(labels, group)| {
            let each = samples(group).into_iter();
            each.map(move |(more, value)| (format!("{{{labels}{more}}}"), value))
        });
        let name = format!("openuvr_portal_session_{name}");
        write_family(out, (&name, "gauge", help), &all.collect::<Vec<_>>());
    };
    family(
        "subscribers",
        "Players, observers and recorders of a session.",
        |group| vec![("", of_count(group.count))],
    );
    family(
        "frames_per_second",
        "Complete frames displayed per second, minimum over the subscribers.",
        |group| {
            group
                .frames_per_second
                .map(|rate| ("", rate))
                .into_iter()
                .collect()
        },
    );
    family(
        "latency_seconds",
        "Latency from capture to display, maximum over the subscribers.",
        |group| {
            let quantiles = |of: LatencyFigures| {
                let [p50, p99] = [of.p50, of.p99].map(|span| span.as_secs_f64());
                [(",quantile=\"0.5\"", p50), (",quantile=\"0.99\"", p99)]
            };
            group.latency.into_iter().flat_map(quantiles).collect()
        },
    );
    family(
        "latency_bound_seconds",
        "Maximum error of the latency, caused by the estimated offset between the two machines' clocks.",
        |group| {
            let bound = group
                .latency
                .map(|of| ("", Duration::as_secs_f64(&of.bound)));
            bound.into_iter().collect()
        },
    );
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn of_count(count: usize) -> f64 {
    count as f64
}
