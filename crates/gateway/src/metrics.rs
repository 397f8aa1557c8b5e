//! Metrics in the Prometheus text format 0.0.4.

use std::fmt::Write as _;

use openuvr_proto::host::figures::SubscriberFigures;

use crate::figures::write_metrics;
use crate::shared::Shared;

/// The metrics as text. `figures` are the host's subscriber statistics, if it reports them.
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
        "WebRTC connections of browsers, open or being established.",
        connections as u64,
    );
    for (name, help, value) in [
        ("sent_datagrams_total", "Datagrams sent.", sums.datagrams),
        (
            "sent_bytes_total",
            "Bytes of the sent datagrams.",
            sums.bytes,
        ),
        (
            "unsent_datagrams_total",
            "Datagrams that the socket rejected, for example because its buffer was full.",
            sums.overflowed,
        ),
        (
            "lost_events_total",
            "Connection events dropped because the queue was full, and messages dropped because they were too long.",
            sums.events_lost,
        ),
    ] {
        put(name, "counter", help, value);
    }
    let controller = shared.media_options.rate_control.name();
    let estimate = shared.lowest_estimate();
    let stun = &shared.addresses.counters;
    for (name, help, counter) in [
        (
            "tcp_connections_total",
            "TCP connections accepted.",
            &c.taken,
        ),
        (
            "tcp_crowded_out_total",
            "TCP connections evicted or refused because a limit was reached.",
            &c.crowded_out,
        ),
        (
            "tls_failed_total",
            "TCP connections whose TLS handshake failed or timed out.",
            &c.failed_handshakes,
        ),
        (
            "foreign_origins_total",
            "Requests refused because their Origin header was missing or named another site.",
            &c.foreign_origins,
        ),
        (
            "logins_refused_total",
            "Log-ins refused by the host.",
            &c.refused_logins,
        ),
        (
            "bad_messages_total",
            "Invalid signalling messages.",
            &c.bad_messages,
        ),
        (
            "offers_refused_total",
            "WebRTC offers refused.",
            &c.refused_offers,
        ),
        (
            "stray_datagrams_total",
            "Datagrams that match no connection.",
            &c.stray_datagrams,
        ),
        (
            "stun_questions_total",
            "Requests to STUN servers, including retransmissions.",
            &stun.questions,
        ),
        (
            "stun_answers_total",
            "STUN responses with a reflexive address.",
            &stun.answers,
        ),
        (
            "stun_refused_total",
            "Unexpected or unusable STUN responses.",
            &stun.refused,
        ),
        (
            "bad_input_total",
            "Data-channel messages that were invalid or not allowed.",
            &c.bad_input,
        ),
        (
            "input_events_total",
            "Input events accepted by the host.",
            &c.input_events,
        ),
        (
            "key_frames_wanted_total",
            "Key frames requested by browsers.",
            &c.key_frames,
        ),
        (
            "frames_shown_total",
            "Frames that pages submitted to the compositor.",
            &c.shown,
        ),
    ] {
        put(name, "counter", help, counter.get());
    }
    let _ = write!(
        text,
        "# HELP openuvr_web_rate_control Congestion control for browsers, named by the label; the value is always 1.\n\
         # TYPE openuvr_web_rate_control gauge\n\
         openuvr_web_rate_control{{controller=\"{controller}\"}} 1\n"
    );
    if let Some(estimate) = estimate {
        let _ = write!(
            text,
            "# HELP openuvr_web_estimate_bits_per_second Lowest rate estimate of the connected browsers.\n\
             # TYPE openuvr_web_estimate_bits_per_second gauge\n\
             openuvr_web_estimate_bits_per_second {}\n",
            estimate.0
        );
    }
    if let Some(figures) = figures {
        write_metrics(&mut text, figures);
    }
    text
}
