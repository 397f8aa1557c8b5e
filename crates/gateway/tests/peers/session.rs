//! Requests of a portal to a session. The requests require the portal's token, and the responses include subscriber
//! statistics.

use std::time::{Duration, Instant};

use openuvr_proto::control::ticket::Action;
use openuvr_proto::time::PeerInstant;
use openuvr_proto::trace::{Fidelity, Outcome};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::{Message, Report};
use serde_json::{Value, json};

use super::caller::Caller;
use super::portal::Portal;
use super::remote::Remote;
use super::support::{Rig, TIMEOUT};

const SIZE: Size = Size::new(320, 192);

fn rig(portal: &Portal, name: &str) -> Rig {
    Rig::leased(name, SIZE, portal.lease())
}

/// A header with a token for these actions.
fn token(portal: &Portal, actions: &[Action]) -> String {
    format!("authorization: {}", portal.bearer(actions))
}

#[test]
fn only_the_portal_gets_statistics() {
    let portal = Portal::new();
    let rig = rig(&portal, "session-figures");
    let caller = Caller::known(&rig);
    let status = token(&portal, &[Action::Status]);
    let told = caller.request("GET /session", &[&status], "").json();
    assert_eq!(told["session"], portal.session.to_string());
    assert_eq!(told["subscribers"], json!([]));

    // A subscriber without reports, so only its presence is known.
    let silent = Remote::connected(&caller, "role=watch");
    let mut remote = Remote::connected(&caller, "reports");
    let unknown = json!({
        "kind": "browser", "role": "observer", "frames_per_second": null,
        "latency_p50": null, "latency_p99": null, "latency_bound": null,
    });
    let told = caller.request("GET /session", &[&status], "").json();
    assert_eq!(told["subscribers"][0], unknown, "{told}");
    let known = until_known(&portal, &caller, &mut remote);
    assert_eq!(
        (&known["kind"], &known["role"]),
        (&json!("browser"), &json!("player"))
    );
    let of = |name: &str| known[name].as_f64().unwrap();
    assert!((0.1..70.0).contains(&of("frames_per_second")), "{known}");
    assert!(of("latency_p50") <= of("latency_p99"), "{known}");
    assert!(of("latency_bound") >= 0.0, "{known}");

    let metrics = caller.request("GET /metrics", &[], "").body;
    for line in [
        "openuvr_host_subscribers{kind=\"browser\",role=\"player\"} 1",
        "openuvr_host_subscribers{kind=\"browser\",role=\"observer\"} 1",
    ] {
        assert!(metrics.lines().any(|of| of == line), "{metrics}");
    }
    let player = "kind=\"browser\",role=\"player\"";
    let figure = |name: &str, labels: &str| -> f64 {
        let start = format!("openuvr_host_{name}{{{player}{labels}}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{start}: {metrics}"))
            .parse()
            .unwrap()
    };
    assert!(figure("frames_per_second", "") > 0.0);
    let p50 = figure("latency_seconds", ",quantile=\"0.5\"");
    assert!(p50 <= figure("latency_seconds", ",quantile=\"0.99\""));
    let unknown = "openuvr_host_frames_per_second{kind=\"browser\",role=\"observer\"}";
    assert!(!metrics.contains(unknown), "{metrics}");

    // Other clients get no statistics.
    let stranger = Portal {
        session: portal.session,
        ..Portal::new()
    };
    for header in ["x: y", &token(&stranger, &[Action::Status])] {
        let refused = caller.request("GET /session", &[header], "");
        assert_eq!(refused.status, 401);
        assert!(!refused.body.contains("subscribers"), "{refused:?}");
    }
    let renewed = caller.request("POST /session/renew", &[&status], "");
    assert_eq!(renewed.status, 403);
    let renew = token(&portal, &[Action::Renew]);
    let renewed = caller.request("POST /session/renew", &[&renew], "").json();
    assert_eq!(renewed["subscribers"].as_array().map(Vec::len), Some(2));
    drop(silent);
}

/// Plays like a page with a clock that starts at 7 s, until the portal gets its frame rate.
fn until_known(portal: &Portal, caller: &Caller, remote: &mut Remote) -> Value {
    let began = Instant::now();
    let clock = || {
        let since = i64::try_from(began.elapsed().as_nanos()).unwrap();
        PeerInstant(7_000_000_000 + since)
    };
    remote.tells_the_time(clock());
    let status = token(portal, &[Action::Status]);
    loop {
        assert!(began.elapsed() < TIMEOUT, "no statistics");
        let frame = remote.names_a_frame();
        remote.send_control(&Message::Report(Report {
            first_received: Some(clock()),
            submitted: Some(Duration::from_millis(5)),
            ..Report::new(frame, Outcome::Displayed(Fidelity::Complete))
        }));
        let told = caller.request("GET /session", &[&status], "").json();
        let all = told["subscribers"].as_array().unwrap().clone();
        let known = |of: &&Value| of["frames_per_second"].is_f64() && of["latency_p99"].is_f64();
        if let Some(found) = all.iter().find(known) {
            return found.clone();
        }
    }
}
