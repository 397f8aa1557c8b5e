//! Statistics of the host's subscribers, for the portal and for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::host::figures::{GroupFigures, LatencyFigures, SubscriberFigures, grouped};
use serde_json::{Value, json};

use crate::shared::Shared;

/// Queries the host; `None` if it does not answer. May wait for a host in another process.
pub(crate) async fn query(shared: &Shared) -> Option<Vec<SubscriberFigures>> {
    let host = Arc::clone(&shared.host);
    let pending = tokio::task::spawn_blocking(move || host.figures());
    pending.await.ok().flatten()
}

/// A list with an object for each subscriber. Times are in seconds; unknown values are null.
pub(crate) fn to_json(all: &[SubscriberFigures]) -> Value {
    all.iter().map(one).collect()
}

fn one(of: &SubscriberFigures) -> Value {
    let seconds = |which: fn(&LatencyFigures) -> Duration| {
        let latency = of.latency.as_ref();
        latency.map(|latency| which(latency).as_secs_f64())
    };
    json!({
        "kind": of.kind.name(),
        "role": of.role.name(),
        "frames_per_second": of.frames_per_second,
        "latency_p50": seconds(|of| of.p50),
        "latency_p99": seconds(|of| of.p99),
        "latency_bound": seconds(|of| of.bound),
    })
}

/// Writes metric families with a sample for each kind and role.
pub(crate) fn write_metrics(text: &mut String, all: &[SubscriberFigures]) {
    let groups = grouped(all);
    let mut family = |name: &str, help: &str, samples: &dyn Fn(&GroupFigures) -> Samples| {
        let _ = write!(
            text,
            "# HELP openuvr_host_{name} {help}\n# TYPE openuvr_host_{name} gauge\n"
        );
        for group in &groups {
            let (kind, role) = (group.kind.name(), group.role.name());
            for (label, value) in samples(group) {
                let labels = format!("kind=\"{kind}\",role=\"{role}\"{label}");
                let _ = writeln!(text, "openuvr_host_{name}{{{labels}}} {value}");
            }
        }
    };
    family("subscribers", "Subscribers of the host.", &|group| {
        vec![("", group.count.to_string())]
    });
    family(
        "frames_per_second",
        "Complete frames displayed per second in the last 5 s, minimum over the subscribers.",
        &|group| {
            let rate = group.frames_per_second.iter();
            rate.map(|rate| ("", rate.to_string())).collect()
        },
    );
    let seconds = |span: Duration| span.as_secs_f64().to_string();
    family(
        "latency_seconds",
        "Latency from capture to display in the last 5 s, maximum over the subscribers.",
        &|group| {
            let quantiles = |of: &LatencyFigures| {
                [
                    (",quantile=\"0.5\"", seconds(of.p50)),
                    (",quantile=\"0.99\"", seconds(of.p99)),
                ]
            };
            group.latency.iter().flat_map(quantiles).collect()
        },
    );
    family(
        "ecn_ce_ratio",
        "Share of L4S packets with congestion marks in the last 5 s, maximum over the subscribers.",
        &|group| {
            let share = group.ce_share.iter();
            share.map(|share| ("", share.to_string())).collect()
        },
    );
    family(
        "latency_bound_seconds",
        "Maximum error of the latency, caused by the estimated offset between the two machines' clocks.",
        &|group| {
            let bound = group.latency.iter();
            bound.map(|of| ("", seconds(of.bound))).collect()
        },
    );
}

/// Additional labels, and the value.
type Samples = Vec<(&'static str, String)>;
