//! A reverse proxy in front of the page: accepted origins, and trust in its `X-Forwarded-For`.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};

use openuvr_proto::units::Size;

use super::caller::{Answer, Caller};
use super::hostile::figure;
use super::support::{ORIGIN, PIN, PROXY, Rig, eventually};

const SIZE: Size = Size::new(320, 192);

/// The proxy's connections to the page, with the key of a browser behind the proxy.
fn through_proxy(rig: &Rig) -> Caller {
    let mut caller = Caller::new(rig);
    let IpAddr::V4(proxy) = PROXY.parse().unwrap() else {
        panic!("{PROXY}");
    };
    caller.from = Some(proxy.octets());
    caller
}

/// A log-in of a browser at this address, forwarded by the proxy.
fn log_in(caller: &Caller, browser: &str, pin: &str) -> Answer {
    let headers = [
        format!("origin: {ORIGIN}"),
        format!("x-forwarded-for: {browser}"),
    ];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let asked = caller.request("POST /login/challenge", &headers, "");
    assert_eq!(asked.status, 200, "{asked:?}");
    let challenge = asked.json()["challenge"].as_str().unwrap().to_owned();
    let body = caller.body(&challenge, ORIGIN, pin);
    caller.request("POST /login", &headers, &body)
}

#[test]
fn a_browser_behind_a_named_proxy_logs_in_at_the_named_origin() {
    let rig = Rig::new("proxied", SIZE);
    let caller = through_proxy(&rig);
    let answer = log_in(&caller, "203.0.113.7", PIN);
    assert_eq!(answer.status, 200, "{answer:?}");
    // Any other origin is another site's page.
    let refused = caller.request(
        "POST /login/challenge",
        &["origin: https://other.example"],
        "",
    );
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("--web-origin"), "{refused:?}");
}

#[test]
fn wrong_pins_are_counted_for_the_browser_behind_the_proxy() {
    let rig = Rig::new("counted", SIZE);
    let caller = through_proxy(&rig);
    // The reason for the refusal. Retries while the network's rate limit is reached.
    let why = |browser: &str, pin: &str| {
        eventually("the network's rate limit", || {
            let answer = log_in(&caller, browser, pin).json();
            let why = answer["refused"].as_str().unwrap_or("").to_owned();
            (!why.contains("too many log-ins")).then_some(why)
        })
    };
    eventually("an exhausted limit of one network", || {
        let why = why("203.0.113.7", "999999");
        why.contains("pairing is closed").then_some(())
    });
    // An entry from the browser itself precedes the proxy's entry, and is ignored.
    for entry in ["192.0.2.55", "é"] {
        let claimed = why(&format!("{entry}, 203.0.113.7"), PIN);
        assert!(claimed.contains("pairing is closed"), "{claimed}");
    }
    // Another browser behind the same proxy has its own limit.
    assert_eq!(log_in(&caller, "203.0.113.8", PIN).status, 200);
}

#[test]
fn figures_are_not_for_those_that_come_through_a_proxy() {
    let rig = Rig::new("figures", SIZE);
    let (proxied, direct) = (through_proxy(&rig), Caller::new(&rig));
    let through = "x-forwarded-for: 203.0.113.7";
    assert_eq!(proxied.request("GET /metrics", &[through], "").status, 403);
    assert_eq!(proxied.request("GET /metrics", &[], "").status, 403);
    // A proxy that is not configured.
    assert_eq!(direct.request("GET /metrics", &[through], "").status, 403);
    assert_eq!(direct.request("GET /metrics", &[], "").status, 200);
}

#[test]
fn http_without_tls_is_led_to_https() {
    let rig = Rig::new("plain", SIZE);
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(rig.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("GET /?role=watch HTTP/1.1\r\nHost: desk:4711\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    assert!(
        answer.contains("\r\nlocation: https://desk:4711/?role=watch\r\n"),
        "{answer}"
    );
    for nowhere in [
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    ] {
        let answer = ask(nowhere);
        assert!(
            answer.contains(" 400 ") && answer.contains("accepts HTTPS"),
            "{answer}"
        );
    }
    // These connections had no TLS handshake that could fail.
    assert_eq!(figure(&Caller::new(&rig), "tls_failed_total"), 0);
}
