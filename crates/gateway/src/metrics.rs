//! Figures for Prometheus, in its text format 0.0.4.

use std::fmt::Write as _;

use openuvr_proto::host::figures::SubscriberFigures;

use crate::figures::write_metrics;
use crate::shared::Shared;

/// `figures`: what the host says of its subscribers, if it does.
pub(crate) fn text(shared: &Shared, figures: Option<&[SubscriberFigures]>) -> String {
    let c = &shared.counters;
    let (connections, sums) = shared.traffic();
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = write!(
            text,
            "# HELP openuvr_web_{name} {help}\n# TYPE openuvr_web_{name} {kind}\nopenuvr_web_{name} {value}\n"
        );
    };
    put(
        "connections",
        "gauge",
        "Browsers that are connected.",
        connections as u64,
    );
    for (name, help, value) in [
        ("sent_datagrams_total", "Datagrams sent.", sums.datagrams),
        ("sent_bytes_total", "Bytes sent.", sums.bytes),
        (
            "unsent_datagrams_total",
            "Datagrams that the socket did not take.",
            sums.overflowed,
        ),
        (
            "lost_events_total",
            "Events that were not taken in time.",
            sums.events_lost,
        ),
    ] {
        put(name, "counter", help, value);
    }
    let stun = &shared.addresses.counters;
    for (name, help, counter) in [
        ("tcp_connections_total", "TCP connections taken.", &c.taken),
        (
            "tcp_crowded_out_total",
            "TCP connections closed for others: too many.",
            &c.crowded_out,
        ),
        (
            "tls_failed_total",
            "TLS handshakes without an end.",
            &c.failed_handshakes,
        ),
        (
            "foreign_origins_total",
            "Requests of other sites' pages.",
            &c.foreign_origins,
        ),
        (
            "logins_refused_total",
            "Log-ins that the host refused.",
            &c.refused_logins,
        ),
        (
            "bad_messages_total",
            "Signalling messages that were none.",
            &c.bad_messages,
        ),
        (
            "offers_refused_total",
            "Offers that could not be answered.",
            &c.refused_offers,
        ),
        (
            "stray_datagrams_total",
            "Datagrams of no connection.",
            &c.stray_datagrams,
        ),
        (
            "stun_questions_total",
            "Questions to STUN servers, with repetitions.",
            &stun.questions,
        ),
        (
            "stun_answers_total",
            "Their answers that say where the host is seen.",
            &stun.answers,
        ),
        (
            "stun_refused_total",
            "Answers to no open question, and those of no use.",
            &stun.refused,
        ),
        (
            "bad_input_total",
            "Messages of data channels that were none.",
            &c.bad_input,
        ),
        (
            "input_events_total",
            "Input events applied.",
            &c.input_events,
        ),
        (
            "key_frames_wanted_total",
            "Key frames that browsers asked for.",
            &c.key_frames,
        ),
        (
            "frames_shown_total",
            "Frames that pages handed to the compositor.",
            &c.shown,
        ),
    ] {
        put(name, "counter", help, counter.get());
    }
    if let Some(figures) = figures {
        write_metrics(&mut text, figures);
    }
    text
}
