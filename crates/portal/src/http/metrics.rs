//! The health check, and metrics in the Prometheus text format 0.0.4.

mod sessions;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::caller::Operator;
use super::refusal::Refusal;
use crate::accounts::Secret;
use crate::launch::Phase;

/// Counts a response.
pub(super) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.counts.answered(response.status());
    response
}

/// Returns 200 if the database accepts writes and the engine responds; otherwise, returns 503 with the problems.
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    let mut wrong = Vec::new();
    wrong.extend(app.health.database_trouble(&app.store).await);
    if app.sessions.engine_trouble().is_some() {
        wrong.push("the engine does not respond".to_owned());
    }
    match wrong.as_slice() {
        [] => (StatusCode::OK, "ok\n").into_response(),
        wrong => (StatusCode::SERVICE_UNAVAILABLE, wrong.join("\n") + "\n").into_response(),
    }
}

/// The metrics, for operators and for clients with the configured token.
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refusal> {
    let (mut parts, _) = request.into_parts();
    let presented = parts.headers.get(header::AUTHORIZATION);
    let presented = presented.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    // Compares hashes, so that the timing reveals nothing about the token.
    let knows = (app.metrics_token.as_deref().zip(presented))
        .is_some_and(|(word, presented)| Secret::kept(word) == Secret::kept(presented));
    if !knows {
        Operator::from_request_parts(&mut parts, &app).await?;
    }
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((kind, text(&app).await).into_response())
}

async fn text(app: &App) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        write_family(&mut out, (name, kind, help), samples);
    };
    let seen = app.sessions.all();
    let states = ["queued", "starting", "running", "ended", "lost"];
    let of = |state: &str| {
        let in_it = seen
            .iter()
            .filter(|seen| word(&seen.observed.phase) == state);
        (format!("{{state=\"{state}\"}}"), in_it.count() as f64)
    };
    family(
        "openuvr_portal_sessions",
        "gauge",
        "Number of sessions that the portal lists, by state.",
        &states.map(of),
    );
    let answers = app.counts.answers.iter().zip(1..);
    let answers: Vec<_> = answers
        .map(|(count, n)| (format!("{{status=\"{n}xx\"}}"), of_count(count)))
        .collect();
    family(
        "openuvr_portal_http_answers_total",
        "counter",
        "HTTP responses.",
        &answers,
    );
    let wrong = of_count(&app.counts.logins_wrong);
    let limited = of_count(&app.counts.logins_limited);
    let provider = of_count(&app.counts.logins_by_provider);
    family(
        "openuvr_portal_logins_refused_total",
        "counter",
        "Refused log-ins.",
        &[
            ("{reason=\"wrong\"}".to_owned(), wrong),
            ("{reason=\"limited\"}".to_owned(), limited),
            ("{reason=\"provider\"}".to_owned(), provider),
        ],
    );
    let up = |up: bool| [(String::new(), if up { 1.0 } else { 0.0 })];
    family(
        "openuvr_portal_engine_up",
        "gauge",
        "1 if the engine responds, otherwise 0.",
        &up(app.sessions.engine_trouble().is_none()),
    );
    family(
        "openuvr_portal_database_up",
        "gauge",
        "1 if the database responds, otherwise 0.",
        &up(app.health.database_trouble(&app.store).await.is_none()),
    );
    if let Ok(servers) = app.sessions.servers().await {
        let each = |value: fn(&crate::launch::Server) -> Option<f64>| -> Vec<(String, f64)> {
            let values = servers.iter();
            values
                .filter_map(|of| Some((format!("{{server={:?}}}", of.name), value(of)?)))
                .collect()
        };
        let places = each(|of| of.places.map(f64::from));
        family(
            "openuvr_portal_places",
            "gauge",
            "Maximum number of sessions on the server.",
            &places,
        );
        let used = each(|of| Some(f64::from(of.sessions)));
        family(
            "openuvr_portal_places_used",
            "gauge",
            "Number of sessions on the server.",
            &used,
        );
    }
    sessions::write(&mut out, &seen, Instant::now());
    out
}

/// Writes a metric family: its name, type and help, and its samples. Each sample consists of its labels (in braces) and
/// its value.
fn write_family(
    out: &mut String,
    (name, kind, help): (&str, &str, &str),
    samples: &[(String, f64)],
) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn of_count(count: &AtomicU64) -> f64 {
    count.load(Ordering::Relaxed) as f64
}

fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Queued { .. } => "queued",
        Phase::Starting => "starting",
        Phase::Running { .. } => "running",
        Phase::Ended { .. } => "ended",
        Phase::Lost { .. } => "lost",
    }
}
