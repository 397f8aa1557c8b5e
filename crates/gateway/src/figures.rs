//! How the host's subscribers see it, for who asks: in the answers to a portal and for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::host::figures::{GroupFigures, LatencyFigures, SubscriberFigures, grouped};
use serde_json::{Value, json};

use crate::shared::Shared;

/// Asks the host; `None`: it does not say. One in another process may be waited for.
pub(crate) async fn query(shared: &Shared) -> Option<Vec<SubscriberFigures>> {
    let host = Arc::clone(&shared.host);
    let asked = tokio::task::spawn_blocking(move || host.figures());
    asked.await.ok().flatten()
}

/// A list with an object for each; times in seconds, and null for what is not known.
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

/// Families of metrics with a sample for each kind and role.
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
        "Frames displayed whole a second over the newest seconds, where they are fewest.",
        &|group| {
            let rate = group.frames_per_second.iter();
            rate.map(|rate| ("", rate.to_string())).collect()
        },
    );
    let seconds = |span: Duration| span.as_secs_f64().to_string();
    family(
        "latency_seconds",
        "From capture to display over the newest seconds, where it is longest.",
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
        "latency_bound_seconds",
        "By how much that may be off, since two clocks are compared.",
        &|group| {
            let bound = group.latency.iter();
            bound.map(|of| ("", seconds(of.bound))).collect()
        },
    );
}

/// More labels, and a value.
type Samples = Vec<(&'static str, String)>;
