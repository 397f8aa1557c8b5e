//! The gateway's parsers of browser input, and its packetisation of slices. `control_messages` covers input events of
//! browsers, because they are the same messages as those of a client.

use std::time::Instant;

use openuvr_gateway::forwarded::browser;
use openuvr_gateway::login;
use openuvr_gateway::packetise::{MAX_PAYLOAD, payloads, vp9};
use openuvr_gateway::reflexive::{DatagramKind, Reflexive};
use openuvr_gateway::signalling::{Reply, Request};
use openuvr_gateway_settings::{ProxyNetwork, WebOrigin};

/// A request that can be parsed has a connection id that can also be written in a reply.
pub fn signalling(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(request) = Request::parse(text) else {
        return;
    };
    let (Request::Connect { connection }
    | Request::Offer { connection, .. }
    | Request::Candidate { connection, .. }
    | Request::Disconnect { connection }) = request;
    let reply = Reply::Connect {
        connection: &connection,
        ice_servers: &[],
    };
    let again = Request::parse(&reply.to_text()).expect("the text of Reply::Connect is a request");
    assert_eq!(again, Request::Connect { connection });
}

/// Reading a log-in must not panic. The fuzzer can't produce a valid log-in, because it must sign a challenge.
pub fn log_in(bytes: &[u8]) {
    let _ = login::read(bytes, "https://host:4711");
}

/// A browser's address from the headers of a reverse proxy, and the configuration of proxies and origins. An address
/// results from any headers, valid or not. The text of a parsed proxy or origin parses to the same value.
pub fn forwarded(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let proxies = ["127.0.0.1".parse(), "10.0.0.0/8".parse()].map(|one| one.expect("a network"));
    let peer = [127, 0, 0, 1].into();
    let at = browser(peer, text.lines(), &proxies);
    // `::` is the only address without a digit.
    assert!(at == peer || text.contains(|c: char| c.is_ascii_hexdigit() || c == ':'));
    if let Ok(proxy) = text.parse::<ProxyNetwork>() {
        assert_eq!(proxy.to_string().parse(), Ok(proxy));
    }
    if let Ok(origin) = text.parse::<WebOrigin>() {
        assert_eq!(origin.to_string().parse(), Ok(origin.clone()));
        assert!(!origin.host().is_empty());
    }
}

/// Packetises the input as H.264 and as VP9. Each payload fits into a packet, only the last payload is marked, and
/// fragments add only their headers.
pub fn packetise(bytes: &[u8]) {
    let (mut sum, mut count, mut ends) = (0, 0, 0);
    payloads(bytes, |payload, last| {
        assert!(ends == 0 && (1..=MAX_PAYLOAD).contains(&payload.len()));
        ends += usize::from(last);
        sum += payload.len();
        count += 1;
    });
    assert_eq!(ends, usize::from(count > 0));
    assert!(sum <= bytes.len() + 2 * count);
    let (mut sum, mut count, mut ends) = (0, 0, 0);
    vp9::Packetiser::default().payloads(bytes, |payload, last| {
        assert!(ends == 0 && (1..=MAX_PAYLOAD).contains(&payload.len()));
        ends += usize::from(last);
        sum += payload.len();
        count += 1;
    });
    assert_eq!(ends, usize::from(!bytes.is_empty()));
    assert!((bytes.len() + 5 * count..=bytes.len() + 6 * count).contains(&sum));
}

/// Datagrams from the address of a STUN server, with the transaction id of the pending request. A STUN response results
/// in one address, and any other datagram in none.
pub fn stun_answers(bytes: &[u8]) {
    let now = Instant::now();
    let server = ([198, 51, 100, 1], 3478).into();
    let mut asked = Reflexive::new(now, ([10, 0, 0, 2], 4711).into());
    asked.request(now, &[server]);
    let mut question = Vec::new();
    asked.poll(now, |_, datagram| question = datagram.to_vec());
    let mut datagram = bytes.to_vec();
    // The fuzzer can't guess the magic cookie and the transaction id (RFC 8489 section 5).
    if let Some(known) = datagram.get_mut(4..20) {
        known.copy_from_slice(&question[4..20]);
    }
    let answered = asked.receive(now, server, &datagram) == DatagramKind::Answer;
    assert_eq!(asked.addresses().len(), usize::from(answered));
    assert_ne!(
        asked.receive(now, server, &datagram),
        DatagramKind::Answer,
        "the answer was accepted twice"
    );
}
